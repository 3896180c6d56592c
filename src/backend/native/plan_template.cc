#include "backend/native/plan_template.h"

#include "backend/native/identity.h"
#include "backend/native/tool_commands.h"
#include "base/str.h"
#include "model/box_settings.h"
#include "model/tools.h"

namespace caisson::backend::native {

using namespace wire;

namespace {

constexpr std::uint64_t kTemplateBytes = 4u << 20;
constexpr std::uint64_t kTemplateInodes = 4096;

constexpr const char* kDevices[] = {"null", "zero", "full", "random", "urandom", "tty"};
constexpr std::pair<const char*, const char*> kDeviceLinks[] = {
    {"/proc/self/fd", "/dev/fd"},       {"/proc/self/fd/0", "/dev/stdin"},
    {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
    {"pts/ptmx", "/dev/ptmx"},
};
void add_devices(Plan& plan) {
  for (const char* name : kDevices) {
    const std::string path = str("/dev/", name);
    plan.emplace_back(BindHost{.source = path, .target = path, .flags = kNoSuid | kNoExec});
  }
  for (const auto& [content, target] : kDeviceLinks) {
    plan.emplace_back(MakeSymlink{.content = content, .target = target});
  }
}

// Commands that the host lacks, and what they run.
void add_tools(Plan& plan, const Host& host, const RootImage& image, FdIndex idmap) {
  const std::uint32_t owner = root_owner(host);
  for (const char* path : {kToolRoot, model::kToolCommands, model::kToolFiles}) {
    plan.emplace_back(MakeDirectory{.target = path, .mode = 0755, .owner = owner});
  }
  const std::string set = image.tools ? image.tools->set : "none";
  for (const auto& [name, script] : tool_commands(host.commands, set)) {
    plan.emplace_back(
        MakeFile{.target = str(model::kToolCommands, "/", name), .mode = 0755, .content = script});
  }
  if (!image.tools) return;
  plan.emplace_back(BindHost{.source = image.tools->path,
                             .target = model::kToolFiles,
                             .flags = kSystem,
                             .idmap = idmap,
                             .idmap_optional = true,
                             .expected_device = image.tools->device,
                             .expected_inode = image.tools->inode});
}

// The host's system directories and just enough of /etc, on a small tmpfs.
void add_host_root(Plan& plan, const Host& host, const RootImage& image, FdIndex idmap) {
  const std::uint32_t owner = root_owner(host);
  plan.emplace_back(NewRoot{.bytes = kTemplateBytes, .inodes = kTemplateInodes, .owner = owner});
  for (const char* path :
       {"/dev", "/dev/pts", "/dev/shm", "/etc", "/home", model::kBoxHome, "/mnt", "/opt",
        model::kArtifactRoot, "/run", "/srv", "/tmp", "/var", "/var/lib", "/workspace"}) {
    plan.emplace_back(MakeDirectory{.target = path, .mode = 0755, .owner = owner});
  }
  plan.emplace_back(MakeDirectory{.target = "/root", .mode = 0700, .owner = owner});
  // What is masked in /proc is covered by the directory under it: see MaskPath.
  plan.emplace_back(MakeDirectory{.target = "/proc", .mode = 0, .owner = owner});
  plan.emplace_back(MakeSymlink{.content = "/tmp", .target = "/var/tmp"});
  plan.emplace_back(MakeSymlink{.content = "/run", .target = "/var/run"});
  for (const Host::RootEntry& entry : host.root_entries) {
    if (!entry.link.empty()) {
      plan.emplace_back(MakeSymlink{.content = entry.link, .target = entry.path});
    } else {
      plan.emplace_back(BindHost{.source = entry.path,
                                 .target = entry.path,
                                 .flags = kSystem,
                                 .idmap = idmap,
                                 .idmap_optional = true});
    }
  }
  add_tools(plan, host, image, idmap);
  for (const std::string& path : host.etc_directories) {
    plan.emplace_back(BindHost{.source = path,
                               .target = path,
                               .flags = kSystem | kNoExec,
                               .idmap = idmap,
                               .idmap_optional = true});
  }
  add_files(plan, host.etc_files);
  plan.emplace_back(MakeSymlink{.content = "/proc/self/mounts", .target = "/etc/mtab"});
  add_files(plan, generated_files(host));
}

// An imported tree, with the files that depend on the box laid over it.
void add_image_root(Plan& plan, const Host& host, const RootImage& image, FdIndex idmap) {
  plan.emplace_back(BindRoot{.source = image.rootfs, .flags = kSystem, .idmap = idmap});
  plan.emplace_back(MakeTmpfs{.target = "/dev",
                              .bytes = kTemplateBytes,
                              .inodes = kTemplateInodes,
                              .mode = 0755,
                              .owner = root_owner(host)});
  for (const char* path : {"/dev/pts", "/dev/shm", "/dev/.files"}) {
    plan.emplace_back(MakeDirectory{.target = path, .mode = 0755, .owner = root_owner(host)});
  }
  for (auto [path, content] : generated_files(host)) {
    if (path == "/etc/passwd") content = passwd_with_box_user(image.passwd);
    if (path == "/etc/group") content = group_with_box_user(image.group);
    // These are as the image has them.
    if (path == "/etc/nsswitch.conf" || path == "/etc/hostname" || path == "/etc/profile") continue;
    const std::string file = str("/dev/.files/", path.substr(path.rfind('/') + 1));
    plan.emplace_back(MakeFile{.target = file, .mode = 0644, .content = content});
    plan.emplace_back(BindInside{.source = file, .target = path, .flags = kSystem | kNoExec});
  }
}

}  // namespace

std::string host_at(const RootImage& image) {
  return image.is_host() ? "/.host" : "/run/.host";
}

std::uint32_t root_owner(const Host& host) {
  return host.privileged ? kFileOwnersBase : 0;
}

std::vector<std::string> system_directories(const Host& host, const RootImage& image) {
  if (!image.is_host()) return image.system_directories;
  std::vector<std::string> directories;
  for (const Host::RootEntry& entry : host.root_entries) {
    if (entry.link.empty()) directories.push_back(entry.path);
  }
  if (image.tools) directories.emplace_back(model::kToolFiles);
  return directories;
}

void add_files(Plan& plan, const std::vector<std::pair<std::string, std::string>>& files) {
  for (const auto& [path, content] : files) {
    plan.emplace_back(MakeFile{.target = path, .mode = 0644, .content = content});
  }
}

Plan plan_template(const Host& host, const RootImage& image, FdIndex idmap) {
  Plan plan;
  if (image.is_host()) {
    add_host_root(plan, host, image, idmap);
  } else {
    add_image_root(plan, host, image, idmap);
  }
  add_devices(plan);
  if (!host.privileged) {
    if (!image.is_host()) {
      plan.emplace_back(MakeTmpfs{.target = "/run", .bytes = kTemplateBytes, .inodes = 16});
    }
    plan.emplace_back(MakeDirectory{.target = host_at(image), .mode = 0755, .owner = 0});
    if (!image.is_host()) plan.emplace_back(MakeReadOnly{"/run"});
  }
  plan.emplace_back(MakeReadOnly{image.is_host() ? "/" : "/dev"});
  plan.emplace_back(PivotRoot{host.privileged ? "" : host_at(image)});
  return plan;
}

}  // namespace caisson::backend::native
