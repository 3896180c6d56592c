// Rows I3 and I4: the mount table is fixed, the root read-only, and nothing of the host is in it.
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr int kMountShared = 1 << 20;   // MS_SHARED; <sys/mount.h> and <linux/mount.h> collide
constexpr int kMountPrivate = 1 << 18;  // MS_PRIVATE
constexpr char kNowhere[] = "/caisson-no-such-path";

// A file system type that does not exist: a permitted caller gets ENODEV and no mount.
Outcome mount_tmpfs(Argument) {
  return judge(::syscall(SYS_mount, "none", "/tmp", "caisson-no-such-type", 0, nullptr));
}

// Two propagation types at once: a permitted caller gets EINVAL and no change.
Outcome mount_propagation(Argument) {
  return judge(::syscall(SYS_mount, nullptr, "/", nullptr, kMountShared | kMountPrivate, nullptr));
}

Outcome mount_setattr_noop(Argument) {
  mount_attr nothing{};
  return judge(::syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &nothing, sizeof nothing));
}

Outcome fsopen_tmpfs(Argument) {
  return judge(UniqueFd(static_cast<int>(::syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC))).get());
}

Outcome open_tree_clone(Argument) {
  const long fd = ::syscall(SYS_open_tree, AT_FDCWD, "/tmp", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  return judge(UniqueFd(static_cast<int>(fd)).get());
}

Outcome move_mount_nowhere(Argument) {
  return judge(::syscall(SYS_move_mount, AT_FDCWD, kNowhere, AT_FDCWD, kNowhere, 0));
}

// A directory that is no mount point: a permitted caller gets EINVAL.
Outcome umount_directory(Argument) {
  const TempDir directory;
  if (!directory.valid()) return broken("no temporary directory: " + errno_name(errno));
  return judge(::syscall(SYS_umount2, directory.path().c_str(), 0));
}

Outcome pivot_root_nowhere(Argument) {
  return judge(::syscall(SYS_pivot_root, kNowhere, kNowhere));
}
Outcome chroot_here(Argument) {
  return judge(::chroot("/"));
}

// An unnamed file leaves no trace even for an instant; where the file system has none, a named one
// is made and removed.
bool can_create_in(const std::string& directory) {
  const UniqueFd unnamed(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (unnamed) return true;
  if (errno != EOPNOTSUPP && errno != EISDIR) return false;
  const std::string path = directory + "/caisson-probe-" + std::to_string(::getpid());
  const UniqueFd named(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (named) ::unlink(path.c_str());
  return named.valid();
}

Outcome root_write(Argument) {
  for (const char* directory :
       {"/", "/usr", "/usr/bin", "/usr/lib", "/usr/local/bin", "/etc", "/bin", "/sbin", "/lib",
        "/lib64", "/opt", "/srv", "/boot", "/var", "/var/lib", "/mnt", "/media", "/dev"}) {
    if (can_create_in(directory)) return allowed(std::string("a file in ") + directory);
  }
  return denied("system directories");
}

Outcome etc_shadow(Argument) {
  for (const char* path : {"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers"}) {
    const Outcome outcome = judge_readable(path);
    if (outcome.verdict != Verdict::denied) return outcome;
  }
  return denied("unreadable");
}

// The argument is a file that everybody may read on the other side. The detours are those of a
// process that looks for a way out of its root.
Outcome host_file(Argument path) {
  if (path.empty()) return broken("needs the path of a file outside");
  for (const std::string prefix : {"", "/proc/1/root", "/proc/self/root/..", "/../../.."}) {
    const UniqueFd fd(::open((prefix + path).c_str(), O_RDONLY | O_CLOEXEC));
    if (fd) return allowed(prefix + path + " opens");
    const Outcome outcome = judge(-1, {ENOENT, ENOTDIR, ELOOP});
    if (outcome.verdict != Verdict::denied) return outcome;
  }
  return denied("unreachable");
}

Outcome engine_socket(Argument) {
  for (const char* path :
       {"/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock",
        "/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/dbus/system_bus_socket",
        "/run/systemd/private", "/run/systemd/notify", "/run/systemd/journal/socket"}) {
    struct stat status {};
    if (::stat(path, &status) == 0) return allowed(std::string(path) + " is present");
  }
  return denied("none present");
}

constexpr Check kChecks[] = {
    {"I03", "mount_tmpfs", mount_tmpfs},
    {"I03", "mount_propagation", mount_propagation},
    {"I03", "mount_setattr", mount_setattr_noop},
    {"I03", "fsopen", fsopen_tmpfs},
    {"I03", "open_tree_clone", open_tree_clone},
    {"I03", "move_mount", move_mount_nowhere},
    {"I03", "umount", umount_directory},
    {"I03", "pivot_root", pivot_root_nowhere},
    {"I03", "chroot", chroot_here},
    {"I04", "root_write", root_write},
    {"I04", "etc_shadow", etc_shadow},
    {"I04 I17", "host_file", host_file},
    {"I04", "engine_socket", engine_socket},
};

}  // namespace

std::span<const Check> mount_checks() {
  return kChecks;
}

}  // namespace caisson::payload
