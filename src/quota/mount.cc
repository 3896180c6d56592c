#include "quota/mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;

// The context of a mount has the reason in words: "e ext4: bad option".
[[noreturn]] void fail(int context, const std::string& what) {
  const int error_number = errno;
  char message[512];
  const ssize_t got = ::read(context, message, sizeof message);
  const std::string_view said(message, got > 0 ? static_cast<std::size_t>(got) : 0u);
  throw SystemError(said.empty() ? what : str(what, " (", printable(trim(said)), ")"),
                    error_number);
}

void set_options(int context, const std::vector<MountOption>& options, const std::string& what) {
  for (const MountOption& option : options) {
    const bool flag = option.value.empty();
    if (::fsconfig(context, flag ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING, option.name.c_str(),
                   flag ? nullptr : option.value.c_str(), 0) < 0) {
      fail(context, what);
    }
  }
}

UniqueFd open_part(int mount, const std::string& inside) {
  return UniqueFd(::open_tree(mount, inside.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
}

void put_at(int mount, const fs::path& path) {
  check_syscall(str("mount at ", path.native()),
                ::move_mount(mount, "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH));
}

}  // namespace

UniqueFd new_mount(const std::string& type, const std::vector<MountOption>& options) {
  const std::string what = str("make a mount of ", type);
  const UniqueFd context(check_syscall(what, ::fsopen(type.c_str(), FSOPEN_CLOEXEC)));
  set_options(context.get(), options, what);
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) {
    fail(context.get(), what);
  }
  return UniqueFd(check_syscall(
      what, ::fsmount(context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)));
}

void reconfigure(const fs::path& mounted, const std::vector<MountOption>& options) {
  const std::string what = str("change the mount at ", mounted.native());
  const UniqueFd context(check_syscall(what, ::fspick(AT_FDCWD, mounted.c_str(), FSPICK_CLOEXEC)));
  set_options(context.get(), options, what);
  if (::fsconfig(context.get(), FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr, 0) < 0) {
    fail(context.get(), what);
  }
}

UniqueFd clone_mount(const fs::path& path) {
  return UniqueFd(check_syscall(
      path.native(), ::open_tree(AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
}

UniqueFd open_uncovered(const fs::path& directory) {
  const UniqueFd parent = clone_mount(directory.parent_path());
  return open_file_at(parent.get(), directory.filename(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

bool is_mount_point(const fs::path& directory) {
  struct statx info {};
  check_syscall(directory.native(), ::statx(AT_FDCWD, directory.c_str(),
                                            AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &info));
  return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

void attach(int mount, const std::string& inside, const fs::path& path, const fs::path& staging) {
  if (inside.empty()) return put_at(mount, path);
  UniqueFd part = open_part(mount, inside);
  if (!part && errno == EINVAL) {
    if (::mkdir(staging.c_str(), 0700) < 0 && errno != EEXIST) {
      throw SystemError(staging.native(), errno);
    }
    put_at(mount, staging);
    part = open_part(mount, inside);
    const int error_number = errno;
    check_syscall(staging.native(), ::umount2(staging.c_str(), MNT_DETACH));
    check_syscall(staging.native(), ::rmdir(staging.c_str()));
    errno = error_number;
  }
  check_syscall(str("mount at ", path.native()), part.get());
  put_at(part.get(), path);
}

void unmount(const fs::path& path) {
  if (::umount2(path.c_str(), UMOUNT_NOFOLLOW) == 0) return;
  if (errno != EBUSY) throw SystemError(str("unmount ", path.native()), errno);
  throw Error(ErrorCode::busy,
              str(path.native(), " is in use; end the processes that work in it, then try again"));
}

}  // namespace caisson::quota
