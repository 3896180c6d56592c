#include "guest/prove.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "base/exhaustion.h"
#include "base/str.h"
#include "guest/step_error.h"

namespace caisson::guest {

namespace {

constexpr std::size_t kFileBytes = 4096;

// What the probe saw. It runs on shared memory and only fills this in; the guest judges afterwards.
struct Observation {
  const char* scratch_path = nullptr;
  const std::vector<std::string>* masked = nullptr;
  const std::vector<std::string>* read_only = nullptr;
  const std::vector<std::string>* own_inodes = nullptr;
  bool read_only_root = true;

  std::uint64_t namespaces[7] = {};
  char uid_map[kFileBytes] = {};
  char cgroup[kFileBytes] = {};
  char devices[kFileBytes] = {};
  uid_t uids[3] = {};
  std::uint32_t capabilities[6] = {};
  int bounding_held = -1;
  int no_new_privs = -1;
  int seccomp_mode = -1;
  int unshare_error = 0;
  int unknown_call_error = 0;
  int root_write_error = 0;
  int sysctl_write_error = 0;
  const char* unmasked = nullptr;  // the first path that is not masked,
  const char* writable = nullptr;  // or not read-only,
  const char* shared = nullptr;    // or no overlay
  int guest_memory_error = 0;
  int guest_environment_error = 0;
  pid_t parent = -1;
  struct statvfs scratch {};
  int scratch_error = 0;
  int exhausted = 0;  // errno, when something could not be looked at for want of descriptors
};

void note_exhaustion(Observation& seen, int error_number) {
  if (is_exhaustion(error_number)) seen.exhausted = error_number;
}

void read_text(Observation& seen, const char* path, char (&buffer)[kFileBytes]) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return note_exhaustion(seen, errno);
  const ssize_t got = ::read(fd, buffer, sizeof buffer - 1);
  buffer[got > 0 ? got : 0] = '\0';
  ::close(fd);
}

// The errno of an attempt that must fail, or 0 when it succeeded.
int open_error(Observation& seen, const char* path, int flags) {
  const int fd = ::open(path, flags | O_CLOEXEC, 0600);
  if (fd < 0) {
    const int error_number = errno;
    note_exhaustion(seen, error_number);
    return error_number;
  }
  ::close(fd);
  return 0;
}

// What is masked is not there at all, is the null device, or is a directory nobody may enter.
bool is_masked(const char* path) {
  struct stat info {};
  if (::stat(path, &info) < 0) return true;
  if (S_ISCHR(info.st_mode)) return info.st_rdev == makedev(1, 3);
  return S_ISDIR(info.st_mode) && (info.st_mode & 0777) == 0;
}

bool is_read_only(const char* path) {
  struct statvfs info {};
  return ::statvfs(path, &info) < 0 || (info.f_flag & ST_RDONLY) != 0;
}

bool is_overlay(const char* path) {
  struct statfs info {};
  return ::statfs(path, &info) == 0 && info.f_type == OVERLAYFS_SUPER_MAGIC;
}

void observe_proc(Observation& seen) {
  seen.sysctl_write_error = open_error(seen, "/proc/sys/kernel/core_pattern", O_WRONLY);
  for (const std::string& path : *seen.masked) {
    if (!is_masked(path.c_str())) seen.unmasked = path.c_str();
  }
  for (const std::string& path : *seen.read_only) {
    if (!is_read_only(path.c_str())) seen.writable = path.c_str();
  }
}

void observe_identity(Observation& seen) {
  ::syscall(SYS_getresuid, &seen.uids[0], &seen.uids[1], &seen.uids[2]);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  ::syscall(SYS_capget, &header, data);
  for (std::size_t i = 0; i < 2; ++i) {
    seen.capabilities[3 * i] = data[i].effective;
    seen.capabilities[3 * i + 1] = data[i].permitted;
    seen.capabilities[3 * i + 2] = data[i].inheritable;
  }
  seen.bounding_held = 0;
  for (int capability = 0;; ++capability) {
    const int held = ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
    if (held < 0) break;
    seen.bounding_held += held;
  }
  seen.no_new_privs = ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
  seen.seccomp_mode = ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
}

void observe_denials(Observation& seen) {
  seen.unshare_error = ::unshare(CLONE_NEWUSER) < 0 ? errno : 0;
  seen.unknown_call_error = ::syscall(1000) < 0 ? errno : 0;
  seen.root_write_error = seen.read_only_root
                              ? open_error(seen, "/.caisson-proof", O_WRONLY | O_CREAT | O_EXCL)
                              : EROFS;
  seen.guest_memory_error = open_error(seen, "/proc/1/mem", O_RDWR);
  seen.guest_environment_error = open_error(seen, "/proc/1/environ", O_RDONLY);
  seen.parent = ::getppid();
}

void observe(void* argument) {
  Observation& seen = *static_cast<Observation*>(argument);
  static constexpr const char* kNamespaces[] = {
      "/proc/self/ns/user", "/proc/self/ns/mnt",    "/proc/self/ns/pid", "/proc/self/ns/ipc",
      "/proc/self/ns/uts",  "/proc/self/ns/cgroup", "/proc/self/ns/net"};
  for (std::size_t i = 0; i < std::size(kNamespaces); ++i) {
    struct stat info {};
    if (::stat(kNamespaces[i], &info) == 0) seen.namespaces[i] = info.st_ino;
  }
  read_text(seen, "/proc/self/uid_map", seen.uid_map);
  read_text(seen, "/proc/self/cgroup", seen.cgroup);
  read_text(seen, "/proc/self/net/dev", seen.devices);
  seen.scratch_error = ::statvfs(seen.scratch_path, &seen.scratch) < 0 ? errno : 0;
  observe_identity(seen);
  observe_denials(seen);
  observe_proc(seen);
  for (const std::string& path : *seen.own_inodes) {
    if (!is_overlay(path.c_str())) seen.shared = path.c_str();
  }
}

// Where an id of this user namespace really is, as seen from the parent namespace; -1: nowhere.
std::int64_t outside_id(const char* map, std::uint32_t inside) {
  const char* position = map;
  for (;;) {
    char* end = nullptr;
    const unsigned long long first = ::strtoull(position, &end, 10);
    if (end == position) return -1;
    const unsigned long long outside = ::strtoull(end, &end, 10);
    const unsigned long long count = ::strtoull(end, &end, 10);
    if (inside >= first && inside < first + count) {
      return static_cast<std::int64_t>(outside + (inside - first));
    }
    position = end;
  }
}

// Lines are "7:cpu,cpuacct:/path". A controller that none of them names is of the unified
// hierarchy, whose line is "0::/path".
bool in_namespace_root(std::string_view cgroups, std::string_view controller) {
  bool in_unified_root = false;
  while (!cgroups.empty()) {
    const std::string_view line = cgroups.substr(0, cgroups.find('\n'));
    cgroups.remove_prefix(std::min(cgroups.size(), line.size() + 1));
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const bool in_root = line.substr(second + 1) == "/";
    std::string_view names = line.substr(first + 1, second - first - 1);
    if (names.empty()) in_unified_root = in_root;
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find(','));
      if (name == controller) return in_root;
      names.remove_prefix(std::min(names.size(), name.size() + 1));
    }
  }
  return in_unified_root;
}

bool only_loopback(std::string_view devices) {
  bool loopback = false;
  for (std::size_t start = 0; start < devices.size();) {
    const std::string_view line = devices.substr(start, devices.find('\n', start) - start);
    start += line.size() + 1;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::size_t name = line.find_first_not_of(' ');
    if (line.substr(name, colon - name) != "lo") return false;
    loopback = true;
  }
  return loopback;
}

class Judge {
 public:
  Judge(const wire::GuestSettings& settings, const Observation& seen)
      : settings_(settings), seen_(seen) {}

  // Why the proof does not hold; empty when it does.
  std::string judge(wire::Proof proof) const {
    switch (proof) {
      case wire::Proof::user_namespace:
        return user_namespace();
      case wire::Proof::mount_namespace:
        return mounts();
      case wire::Proof::pid_namespace:
        return seen_.parent == 1 ? own_namespace(2) : "the guest is not process 1";
      case wire::Proof::ipc_namespace:
        return own_namespace(3);
      case wire::Proof::uts_namespace:
        return own_namespace(4);
      case wire::Proof::cgroup_namespace:
        return own_namespace(5);
      case wire::Proof::network_namespace:
        return network();
      case wire::Proof::capabilities:
        return capabilities();
      case wire::Proof::seccomp:
        return filter();
      case wire::Proof::proc_masks:
        return proc();
      case wire::Proof::bounded_storage:
        return storage();
      case wire::Proof::cgroup_membership:
        return membership();
      case wire::Proof::guest_protection:
        return guest();
      case wire::Proof::own_inodes:
        return seen_.shared == nullptr ? "" : str(seen_.shared, " is shared with others");
    }
    return "unknown proof";
  }

 private:
  std::string own_namespace(std::size_t index) const {
    if (seen_.namespaces[index] == 0) return "its namespace could not be read";
    if (index < settings_.host_namespaces.size() &&
        seen_.namespaces[index] == settings_.host_namespaces[index]) {
      return "it is the host's namespace";
    }
    return {};
  }
  std::string user_namespace() const {
    if (std::string why = own_namespace(0); !why.empty()) return why;
    for (const uid_t uid : seen_.uids) {
      if (uid != settings_.payload_uid) return str("a payload runs as uid ", uid);
    }
    const std::int64_t outside = outside_id(seen_.uid_map, settings_.payload_uid);
    if (outside != settings_.payload_outside_uid) return str("its uid outside is ", outside);
    return {};
  }
  std::string mounts() const {
    if (std::string why = own_namespace(1); !why.empty()) return why;
    if (seen_.root_write_error == 0) return "the root file system can be written";
    return {};
  }
  std::string network() const {
    if (std::string why = own_namespace(6); !why.empty()) return why;
    if (settings_.network_off && !only_loopback(seen_.devices)) {
      return "there is more than the loopback device";
    }
    return {};
  }
  std::string capabilities() const {
    for (const std::uint32_t set : seen_.capabilities) {
      if (set != 0) return "a payload holds capabilities";
    }
    if (seen_.bounding_held != 0) return "the bounding set is not empty";
    if (seen_.no_new_privs != 1) return "no_new_privs is not set";
    return {};
  }
  std::string filter() const {
    if (seen_.seccomp_mode != SECCOMP_MODE_FILTER) return "no filter is installed";
    if (seen_.unshare_error != EPERM) return "unshare(2) is not refused";
    if (seen_.unknown_call_error != ENOSYS) return "an unknown system call is not refused";
    return {};
  }
  std::string proc() const {
    if (seen_.sysctl_write_error == 0) return "sysctls can be written";
    if (seen_.unmasked != nullptr) return str(seen_.unmasked, " is not masked");
    if (seen_.writable != nullptr) return str(seen_.writable, " is not read-only");
    return {};
  }
  std::string storage() const {
    if (seen_.scratch_error != 0) return error_text(seen_.scratch_error);
    const std::uint64_t bytes = seen_.scratch.f_blocks * seen_.scratch.f_frsize;
    if (bytes == 0 || bytes > settings_.scratch_bytes) return str("its size is ", bytes, " bytes");
    if (seen_.scratch.f_files == 0) return "its inodes are not limited";
    if ((seen_.scratch.f_flag & ST_NOSUID) == 0) return "setuid programs work in it";
    return {};
  }
  std::string membership() const {
    for (const std::string& controller : settings_.cgroup_controllers) {
      if (!in_namespace_root(seen_.cgroup, controller)) {
        return str("payloads are not in the box's ", controller, " cgroup");
      }
    }
    return {};
  }
  std::string guest() const {
    if (seen_.guest_memory_error == 0) return "the memory of process 1 can be opened";
    if (seen_.guest_environment_error == 0) return "the environment of process 1 can be read";
    return {};
  }

  const wire::GuestSettings& settings_;
  const Observation& seen_;
};

}  // namespace

std::vector<wire::ProofResult> prove(const wire::GuestSettings& settings,
                                     const PayloadRules& rules) {
  Observation seen;
  seen.scratch_path = settings.scratch_path.c_str();
  seen.masked = &settings.masked_paths;
  seen.read_only = &settings.read_only_paths;
  seen.own_inodes = &settings.own_inode_paths;
  seen.read_only_root = settings.read_only_root;
  const StartOutcome outcome =
      run_as_payload(settings.payload_uid, settings.payload_gid, rules, observe, &seen);
  const int error_number = outcome.step_failed ? outcome.error_number : seen.exhausted;
  // That nothing could be found out is no fault of a layer.
  if (is_exhaustion(error_number)) throw StepError{"start a probe", error_number};
  const Judge judge(settings, seen);
  std::vector<wire::ProofResult> results;
  for (const std::uint8_t number : settings.proofs) {
    const auto proof = static_cast<wire::Proof>(number);
    std::string why = outcome.step_failed
                          ? str("a probe could not be started: ", error_text(outcome.error_number))
                          : judge.judge(proof);
    const bool holds = why.empty();
    results.push_back({.proof = proof, .holds = holds, .detail = std::move(why)});
  }
  return results;
}

}  // namespace caisson::guest
