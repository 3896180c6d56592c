#include "backend/native/host.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "backend/native/identity.h"
#include "backend/native/network.h"
#include "backend/native/proc_masks.h"
#include "backend/native/resolver.h"
#include "backend/native/tool_commands.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"
#include "model/box_settings.h"

namespace caisson::backend::native {

namespace {

// Configuration that programs below /usr expect. Nothing here holds secrets or speaks of the host's
// users.
constexpr const char* kEtc[] = {
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/pki",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/login.defs",
    "/etc/magic",
    "/etc/magic.mime",
    "/etc/mime.types",
    "/etc/networks",
    "/etc/os-release",
    "/etc/debian_version",
    "/etc/protocols",
    "/etc/rpc",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
    "/etc/perl",
    "/etc/python3",
    "/etc/python3.11",
    "/etc/python3.12",
    "/etc/python3.13",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/java-25-openjdk",
    "/etc/bash.bashrc",
    "/etc/profile.d",
    "/etc/ethertypes",
    "/etc/xattr.conf",
};
constexpr const char* kRootEntries[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

bool has_capability(unsigned capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) < 0) return false;
  return (data[capability / 32].effective & (1u << (capability % 32))) != 0;
}

std::vector<Host::RootEntry> root_entries() {
  std::vector<Host::RootEntry> entries{{.path = "/usr", .link = ""}};
  for (const char* path : kRootEntries) {
    std::error_code error;
    const auto status = std::filesystem::symlink_status(path, error);
    if (error || !std::filesystem::exists(status)) continue;
    Host::RootEntry entry{.path = path, .link = ""};
    if (std::filesystem::is_symlink(status)) {
      entry.link = std::filesystem::read_symlink(path, error).native();
      if (error) continue;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

// One that is a link to somewhere else, such as a home directory, leads to nothing in a box.
bool is_seen_in_boxes(const std::string& path, const std::vector<Host::RootEntry>& entries) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return false;
  struct stat info {};
  if (::stat(real.c_str(), &info) < 0 || !S_ISREG(info.st_mode)) return false;
  if ((info.st_mode & S_IXOTH) == 0) return false;
  return std::any_of(entries.begin(), entries.end(), [&](const Host::RootEntry& entry) {
    return entry.link.empty() && is_within(real.native(), entry.path);
  });
}

void read_commands(Host& host) {
  for (const char* name : kHostCommands) {
    for (const char* directory : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
      std::string path = str(directory, name);
      if (!is_seen_in_boxes(path, host.root_entries)) continue;
      host.commands.emplace(name, std::move(path));
      break;
    }
  }
}

void read_etc(Host& host) {
  constexpr std::size_t kMaxFileBytes = 1u << 20;
  for (const char* path : kEtc) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (error || ::access(path, R_OK) != 0) continue;
    if (std::filesystem::is_directory(status)) {
      host.etc_directories.emplace_back(path);
    } else if (std::filesystem::is_regular_file(status) &&
               std::filesystem::file_size(path, error) <= kMaxFileBytes) {
      host.etc_files.emplace_back(path, read_file(path));
    }
  }
}

std::uint64_t within_hard_limit(__rlimit_resource_t resource, std::uint64_t wanted) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  return std::min<std::uint64_t>(wanted, limit.rlim_max);
}

void read_resolver(Host& host) {
  const std::string resolv_conf = find_file_content("/etc/resolv.conf").value_or("");
  const std::string upstream = find_file_content("/run/systemd/resolve/resolv.conf").value_or("");
  const BoxResolver resolver = make_resolver(
      {.resolv_conf = resolv_conf,
       .upstream = upstream,
       .host_addresses = host.privileged ? Network::host_addresses() : std::vector<std::string>{}});
  host.resolv_conf = resolver.text;
  host.resolver_problem = resolver.problem;
  host.resolver_fix = resolver.fix;
}

// Adds `line` ("name:x:1000:...") unless the name or the id, in field 2, is taken.
void add_entry(std::string& file, std::string_view line) {
  const std::vector<std::string_view> wanted = split(line, ':');
  for (const std::string_view existing : split(file, '\n')) {
    const std::vector<std::string_view> fields = split(existing, ':');
    if (fields.size() > 2 && (fields[0] == wanted[0] || fields[2] == wanted[2])) return;
  }
  if (!file.empty() && !file.ends_with('\n')) file.push_back('\n');
  file.append(line);
  file.push_back('\n');
}

// Of login shells. A distribution's own finds out who its user is by starting a program, and sets
// PATH anew; a box's user is always the same, and its PATH is what the caller gave it.
constexpr const char* kProfile =
    "for i in /etc/profile.d/*.sh; do\n"
    "  case $i in */bash_completion.sh) [ \"${BASH_VERSION-}\" ] || continue ;; esac\n"
    "  if [ -r \"$i\" ]; then . \"$i\"; fi\n"
    "done\n"
    "unset i\n";

}  // namespace

std::vector<std::string> mounts_inside(std::string_view mountinfo,
                                       const std::vector<Host::RootEntry>& entries) {
  std::vector<std::string> inside;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const std::vector<std::string_view> words = split(line, ' ');
    if (words.size() < 5) continue;
    const std::string path(words[4]);
    if (path.find_first_of(":,\\") != std::string::npos) continue;  // '\\': of an escaped letter
    const bool within = std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
      return entry.link.empty() && path != entry.path && is_within(path, entry.path);
    });
    if (within) inside.push_back(path);
  }
  std::sort(inside.begin(), inside.end());  // a directory comes before what is in it
  inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
  return inside;
}

Host inspect_host() {
  Host host;
  host.privileged = ::geteuid() == 0 && has_capability(CAP_SYS_ADMIN) && has_capability(CAP_SETUID);
  host.root_entries = root_entries();
  for (std::string& path : mounts_inside(read_file("/proc/self/mountinfo"), host.root_entries)) {
    std::error_code error;
    const bool directory = std::filesystem::is_directory(path, error);
    (directory ? host.mounted_directories : host.mounted_files).push_back(std::move(path));
  }
  read_commands(host);
  read_etc(host);
  host.masked_paths = masked_proc_paths(readable_proc_entries());
  for (const char* name : {"user", "mnt", "pid", "ipc", "uts", "cgroup", "net"}) {
    struct stat info {};
    const std::string path = str("/proc/self/ns/", name);
    host.namespaces.push_back(::stat(path.c_str(), &info) == 0 ? info.st_ino : 0);
  }
  host.max_open_files = within_hard_limit(RLIMIT_NOFILE, 4096);
  host.max_pending_signals = within_hard_limit(RLIMIT_SIGPENDING, 4096);
  host.max_message_queue_bytes = within_hard_limit(RLIMIT_MSGQUEUE, 819200);  // Linux's default
  const bool may_raise_limits = host.privileged && has_capability(CAP_SYS_RESOURCE);
  host.max_core_bytes = may_raise_limits ? 1 : within_hard_limit(RLIMIT_CORE, 1);
  read_resolver(host);
  return host;
}

std::string passwd_with_box_user(std::string_view base) {
  std::string file(base);
  add_entry(file, "root:x:0:0:root:/root:/usr/sbin/nologin");
  add_entry(file, str("box:x:", kPayloadId, ":", kPayloadId, "::", model::kBoxHome, ":/bin/sh"));
  add_entry(file, str("caisson:x:", kGuestId, ":", kGuestId, "::/:/usr/sbin/nologin"));
  add_entry(file, "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin");
  return file;
}

std::string group_with_box_user(std::string_view base) {
  std::string file(base);
  add_entry(file, "root:x:0:");
  add_entry(file, "tty:x:5:");
  add_entry(file, str("box:x:", kPayloadId, ":"));
  add_entry(file, str("caisson:x:", kGuestId, ":"));
  add_entry(file, "nogroup:x:65534:");
  return file;
}

std::vector<std::pair<std::string, std::string>> generated_files(const Host& host) {
  return {
      {"/etc/passwd", passwd_with_box_user("")},
      {"/etc/group", group_with_box_user("")},
      {"/etc/hosts", str("127.0.0.1 localhost ", host.hostname, "\n::1 localhost\n")},
      {"/etc/hostname", str(host.hostname, "\n")},
      {"/etc/resolv.conf", host.resolv_conf},
      {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
      {"/etc/profile", kProfile},
  };
}

}  // namespace caisson::backend::native
