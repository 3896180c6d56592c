#include "backend/native/image_layout.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace caisson::backend::native {

namespace {

struct MountPoint {
  const char* path;
  unsigned mode;
};
constexpr MountPoint kDirectories[] = {{"workspace", 0755}, {"proc", 0755}, {"dev", 0755},
                                       {"tmp", 01777},      {"run", 0755},  {"home/box", 0755},
                                       {"etc", 0755}};
constexpr const char* kFilesInEtc[] = {"resolv.conf", "hosts", "passwd", "group"};

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

// One component: opened when it is a directory, made when it is not.
UniqueFd ensure_directory(int parent, const std::string& name, unsigned mode,
                          std::vector<std::string>& notes) {
  UniqueFd fd(::openat(parent, name.c_str(), kOpenDirectory | O_CLOEXEC));
  if (fd) return fd;
  if (errno == ENOTDIR || errno == ELOOP) {
    check_syscall(name, ::unlinkat(parent, name.c_str(), 0));
    notes.push_back(str("/", name, " was not a directory: an empty one takes its place"));
  } else if (errno != ENOENT) {
    throw SystemError(str("/", name), errno);
  }
  check_syscall(name, ::mkdirat(parent, name.c_str(), mode));
  fd = open_file_at(parent, name, kOpenDirectory);
  check_syscall(name, ::fchmod(fd.get(), mode));  // the umask has no say
  return fd;
}

UniqueFd ensure_directories(int root, const MountPoint& wanted, std::vector<std::string>& notes) {
  UniqueFd current;
  for (const std::string_view part : split(wanted.path, '/')) {
    const int parent = current ? current.get() : root;
    current = ensure_directory(parent, std::string(part), wanted.mode, notes);
  }
  return current;
}

// A bind mount wants a plain file as its target; it would follow a symlink out to somewhere else.
void ensure_file(int etc, const std::string& name) {
  struct stat info {};
  if (::fstatat(etc, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISREG(info.st_mode)) return;
    if (S_ISDIR(info.st_mode)) {
      throw Error(ErrorCode::validation_error, str("/etc/", name, " is a directory, not a file"));
    }
    check_syscall(name, ::unlinkat(etc, name.c_str(), 0));
  } else if (errno != ENOENT) {
    throw SystemError(str("/etc/", name), errno);
  }
  const UniqueFd fd = open_file_at(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  check_syscall(name, ::fchmod(fd.get(), 0644));
}

// Symlinks on the way are resolved as a box would resolve them.
bool exists_in_root(int root, const char* path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, root, path, &how, sizeof how)));
  return fd.valid() || errno == ENOSYS;  // a kernel that cannot tell is no reason to warn
}

}  // namespace

std::vector<std::string> prepare_for_boxes(int root) {
  std::vector<std::string> notes;
  for (const MountPoint& wanted : kDirectories) ensure_directories(root, wanted, notes);
  const UniqueFd etc = open_file_at(root, "etc", kOpenDirectory);
  for (const char* name : kFilesInEtc) ensure_file(etc.get(), name);
  if (!exists_in_root(root, "bin/sh")) {
    notes.emplace_back(
        "the image has no /bin/sh: only commands given as a program and its arguments run in it");
  }
  return notes;
}

}  // namespace caisson::backend::native
