#include "backend/native/plan.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend/native/proc_masks.h"
#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "model/tools.h"
#include "wire/guest.h"

namespace caisson::backend::native {

namespace {

using namespace wire;

constexpr std::uint32_t kWritable = kNoSuid | kNoDev;
constexpr std::uint64_t kLockedMemoryBytes = 64u << 10;

// Where every root has a directory: mounts at or below these need no root of their own.
constexpr const char* kSharedPlaces[] = {"/workspace", "/tmp", model::kBoxHome};

std::vector<BoxMount> by_depth(std::vector<BoxMount> mounts) {
  std::stable_sort(mounts.begin(), mounts.end(), [](const BoxMount& a, const BoxMount& b) {
    return std::count(a.target.begin(), a.target.end(), '/') <
           std::count(b.target.begin(), b.target.end(), '/');
  });
  return mounts;
}

class BoxPlanner {
 public:
  BoxPlanner(const Host& host, const BoxRequest& request)
      : host_(host), request_(request), payload_(host.privileged ? request.ids.payload : 0) {}

  BoxPlan make() {
    BoxPlan result;
    const bool shared = shares_root(request_);
    if (shared) {
      if (request_.own_inodes) add_own_inodes(system_directories(host_, request_.image));
      add_beginning();
      result.launch.plan = std::exchange(plan_, {});
    }
    if (!request_.enter_cgroups.empty()) plan_.emplace_back(EnterCgroups{request_.enter_cgroups});
    if (request_.cgroup_namespace) plan_.emplace_back(NewCgroupNamespace{});
    if (shared) {
      plan_.emplace_back(MakeScratch{request_.scratch_bytes, request_.scratch_inodes});
    } else {
      add_own_root();
    }
    add_scratch();
    if (!shared) add_beginning();
    for (const BoxMount& mount : by_depth(request_.mounts)) add_mount(mount);
    if (!shared) {
      if (request_.read_only_root) plan_.emplace_back(MakeReadOnly{"/"});
      plan_.emplace_back(PivotRoot{});
    } else if (!host_.privileged) {
      plan_.emplace_back(Unmount{host_at(request_.image)});
    }
    if (request_.network) plan_.emplace_back(HandOverNetwork{});
    if (!host_.privileged) plan_.emplace_back(HandOverMounts{});
    if (!request_.leave_cgroups.empty()) plan_.emplace_back(EnterCgroups{request_.leave_cgroups});
    add_lockdown();
    result.finish.plan = std::move(plan_);
    return result;
  }

 private:
  // What depends on nothing that is particular to a box.
  void add_beginning() {
    plan_.emplace_back(
        MountTerminals{.target = "/dev/pts", .group = host_.privileged ? kFileOwnersBase + 5 : 0});
    add_proc();
    plan_.emplace_back(SetHostname{host_.hostname});
    plan_.emplace_back(BringLoopbackUp{});
  }

  void add_own_inodes(std::vector<std::string> directories) {
    if (directories.empty()) return;
    OwnInodes step{.paths = std::move(directories), .files = {}};
    step.optional = request_.may_share_inodes;
    if (request_.image.is_host()) {
      const auto inside = [&](const std::string& path) {
        return std::any_of(step.paths.begin(), step.paths.end(),
                           [&](const std::string& outer) { return is_within(path, outer); });
      };
      std::copy_if(host_.mounted_files.begin(), host_.mounted_files.end(),
                   std::back_inserter(step.files), inside);
      std::vector<std::string> mounted;
      std::copy_if(host_.mounted_directories.begin(), host_.mounted_directories.end(),
                   std::back_inserter(mounted), inside);
      step.paths.insert(step.paths.end(), mounted.begin(), mounted.end());
    }
    plan_.emplace_back(std::move(step));
  }

  // A writable root belongs to the payload: what it may change it must own, having no capabilities.
  void add_own_root() {
    if (request_.image.is_host()) {
      add_own_host_root();
    } else {
      plan_.emplace_back(MakeScratch{request_.scratch_bytes, request_.scratch_inodes});
      plan_.emplace_back(overlay("/", request_.image.rootfs));
      plan_.emplace_back(BindTemplate{.source = "/dev", .target = "/dev", .flags = 0});
      for (const char* path : {"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf"}) {
        plan_.emplace_back(
            BindTemplate{.source = path, .target = path, .flags = kSystem | kNoExec});
      }
    }
  }

  MountOverlay overlay(const std::string& target, const std::string& source) const {
    return {.lower = request_.root_lower,
            .source = host_.privileged ? source : str(host_at(request_.image), source),
            .target = target,
            .owner = request_.read_only_root ? root_owner(host_) : payload_,
            .for_ordinary_user = !host_.privileged};
  }

  void add_own_host_root() {
    const bool writable = !request_.read_only_root;
    const std::uint32_t owner = writable ? payload_ : root_owner(host_);
    plan_.emplace_back(NewRoot{request_.scratch_bytes, request_.scratch_inodes, owner});
    for (const char* path : {"/home", model::kBoxHome, "/mnt", "/opt", model::kArtifactRoot,
                             "/proc", "/run", "/srv", "/tmp", "/var", "/var/lib", "/workspace"}) {
      plan_.emplace_back(MakeDirectory{.target = path, .mode = 0755, .owner = owner});
    }
    plan_.emplace_back(MakeDirectory{.target = "/root", .mode = 0700, .owner = root_owner(host_)});
    plan_.emplace_back(MakeSymlink{.content = "/tmp", .target = "/var/tmp"});
    plan_.emplace_back(MakeSymlink{.content = "/run", .target = "/var/run"});
    plan_.emplace_back(BindTemplate{.source = "/dev", .target = "/dev", .flags = 0});
    std::vector<std::string> read_only;
    for (const Host::RootEntry& entry : host_.root_entries) {
      if (!entry.link.empty()) {
        plan_.emplace_back(MakeSymlink{.content = entry.link, .target = entry.path});
      } else if (writable && entry.path == "/usr") {
        plan_.emplace_back(overlay("/usr", "/usr"));
      } else {
        plan_.emplace_back(
            BindTemplate{.source = entry.path, .target = entry.path, .flags = kSystem});
        read_only.push_back(entry.path);
      }
    }
    plan_.emplace_back(BindTemplate{.source = kToolRoot, .target = kToolRoot, .flags = kSystem});
    if (request_.image.tools) read_only.emplace_back(model::kToolFiles);
    if (request_.own_inodes) add_own_inodes(std::move(read_only));
    if (!writable) {
      plan_.emplace_back(BindTemplate{.source = "/etc", .target = "/etc", .flags = kSystem});
      return;
    }
    plan_.emplace_back(MakeDirectory{.target = "/etc", .mode = 0755, .owner = owner});
    for (const std::string& path : host_.etc_directories) {
      plan_.emplace_back(BindTemplate{.source = path, .target = path, .flags = kSystem | kNoExec});
    }
    plan_.emplace_back(MakeSymlink{.content = "/proc/self/mounts", .target = "/etc/mtab"});
    add_files(plan_, host_.etc_files);
    add_files(plan_, generated_files(host_));
  }

  void add_scratch() {
    const auto add = [this](const char* name, const std::string& target, std::uint32_t mode) {
      plan_.emplace_back(BindScratch{
          .name = name, .target = target, .mode = mode, .owner = payload_, .flags = kWritable});
    };
    add("tmp", "/tmp", 01777);
    add("shm", "/dev/shm", 01777);
    add("home", model::kBoxHome, 0755);
    if (!mounted("/workspace")) add("workspace", "/workspace", 0755);
    if (request_.workspace_path != "/workspace" && !mounted(request_.workspace_path)) {
      add("workspace-alias", request_.workspace_path, 0755);
    }
  }

  bool mounted(const std::string& target) const {
    return std::any_of(request_.mounts.begin(), request_.mounts.end(),
                       [&](const BoxMount& mount) { return mount.target == target; });
  }

  void add_proc() {
    plan_.emplace_back(MountProc{"/proc"});
    if (!request_.mask_proc) return;
    for (const std::string& path : host_.masked_paths) plan_.emplace_back(MaskPath{path});
    for (std::string& path : read_only_proc_paths()) {
      plan_.emplace_back(MakeReadOnly{std::move(path)});
    }
  }

  void add_mount(const BoxMount& mount) {
    if (mount.fd != kNoFd) {
      plan_.emplace_back(AttachMount{.fd = mount.fd, .target = mount.target});
      return;
    }
    plan_.emplace_back(BindHost{.source = str(host_at(request_.image), mount.host_path),
                                .target = mount.target,
                                .flags = kWritable | (mount.read_only ? kReadOnly : 0u),
                                .expected_device = mount.device,
                                .expected_inode = mount.inode});
  }

  void add_lockdown() {
    plan_.emplace_back(SetResourceLimit{RLIMIT_NOFILE, host_.max_open_files});
    plan_.emplace_back(SetResourceLimit{RLIMIT_MEMLOCK, kLockedMemoryBytes});
    plan_.emplace_back(SetResourceLimit{RLIMIT_SIGPENDING, host_.max_pending_signals});
    plan_.emplace_back(SetResourceLimit{RLIMIT_MSGQUEUE, host_.max_message_queue_bytes});
    plan_.emplace_back(SetResourceLimit{RLIMIT_CORE, host_.max_core_bytes});
    const std::uint32_t guest = guest_id(host_);
    plan_.emplace_back(
        EnterUserNamespace{.fd = request_.user_namespace, .uid = guest, .gid = guest});
    plan_.emplace_back(DropPrivileges{});
    if (!request_.filter.empty()) plan_.emplace_back(InstallFilter{request_.filter});
  }

 public:
  // The ids processes have in the namespace they end up in. An ordinary user has one id to share.
  static std::uint32_t guest_id(const Host& host) {
    return host.privileged ? kGuestId : kPayloadId;
  }

 private:
  const Host& host_;
  const BoxRequest& request_;
  std::uint32_t payload_;  // the payload's id where the file system is built
  Plan plan_;
};

std::vector<std::uint8_t> proofs(const BoxRequest& request) {
  std::vector<Proof> wanted = {
      Proof::user_namespace, Proof::mount_namespace, Proof::pid_namespace,
      Proof::ipc_namespace,  Proof::uts_namespace,   Proof::network_namespace,
      Proof::capabilities,   Proof::bounded_storage, Proof::guest_protection};
  if (request.cgroup_namespace) wanted.push_back(Proof::cgroup_namespace);
  if (!request.filter.empty()) wanted.push_back(Proof::seccomp);
  if (request.mask_proc) wanted.push_back(Proof::proc_masks);
  if (request.own_inodes) wanted.push_back(Proof::own_inodes);
  if (!request.cgroup_controllers.empty()) wanted.push_back(Proof::cgroup_membership);
  std::vector<std::uint8_t> numbers;
  numbers.reserve(wanted.size());
  for (const Proof proof : wanted) numbers.push_back(static_cast<std::uint8_t>(proof));
  return numbers;
}

}  // namespace

BoxPlan plan_box(const Host& host, const BoxRequest& request) {
  // To the kernel a tmpfs of 0 bytes or inodes is one without a limit.
  if (request.scratch_bytes == 0 || request.scratch_inodes == 0) {
    throw Error(ErrorCode::internal_error, "a box was planned with scratch that has no limit");
  }
  BoxPlan plan = BoxPlanner(host, request).make();
  plan.finish.guest = {.cgroups = request.enter_cgroups,
                       .payload_uid = kPayloadId,
                       .payload_gid = kPayloadId,
                       .payload_outside_uid = host.privileged ? request.ids.payload : 0,
                       .proofs = proofs(request),
                       .host_namespaces = host.namespaces,
                       .cgroup_controllers = request.cgroup_controllers,
                       .masked_paths = {},
                       .read_only_paths = {},
                       .scratch_path = "/dev/shm",
                       .scratch_bytes = request.scratch_bytes,
                       .read_only_root = request.read_only_root,
                       .network_off = !request.network,
                       .own_inode_paths = {}};
  if (request.own_inodes) {
    plan.finish.guest.own_inode_paths = system_directories(host, request.image);
  }
  if (request.mask_proc) {
    plan.finish.guest.masked_paths = host.masked_paths;
    plan.finish.guest.read_only_paths = read_only_proc_paths();
  }
  return plan;
}

std::uint64_t scratch_bytes(std::int64_t memory_mb) {
  return (static_cast<std::uint64_t>(memory_mb) << 20) / 2;
}

std::uint64_t scratch_inodes(std::uint64_t bytes) {
  return std::clamp<std::uint64_t>(bytes / 4096, 4096, 262'144);
}

std::string target_refusal(const std::string& target) {
  if (target == "/") return "it is the root of the box";
  for (const char* path : {"/proc", "/dev", "/sys"}) {
    if (is_within(target, path)) return str(path, " of the box belongs to the kernel");
  }
  for (const char* path : {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"}) {
    if (target == path) return str(path, " is part of the box's root file system");
  }
  return {};
}

bool shares_root(const BoxRequest& request) {
  if (!request.read_only_root) return false;
  const auto has_place = [](const std::string& target) {
    return std::any_of(std::begin(kSharedPlaces), std::end(kSharedPlaces),
                       [&](const char* place) { return is_within(target, place); });
  };
  return has_place(request.workspace_path) &&
         std::all_of(request.mounts.begin(), request.mounts.end(),
                     [&](const BoxMount& mount) { return has_place(mount.target); });
}

}  // namespace caisson::backend::native
