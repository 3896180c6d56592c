#include "guest/mount_calls.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/step_error.h"

namespace caisson::guest {

namespace {

constexpr std::uint64_t kMountAttributes[] = {MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID,
                                              MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC};

}  // namespace

std::uint64_t attributes(std::uint32_t flags) {
  std::uint64_t result = 0;
  for (unsigned bit = 0; bit < 4; ++bit) {
    if ((flags & (1u << bit)) != 0) result |= kMountAttributes[bit];
  }
  return result;
}

int open_in_root(int root, const std::string& path, std::uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how));
}

UniqueFd new_file_system(const char* type, std::initializer_list<FileSystemOption> options,
                         std::uint64_t mount_attributes, const std::string& what) {
  const UniqueFd context(check_step(what, ::fsopen(type, FSOPEN_CLOEXEC)));
  for (const FileSystemOption& option : options) {
    const bool flag = option.value.empty();
    check_step(what, ::fsconfig(context.get(), flag ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING,
                                option.name, flag ? nullptr : option.value.c_str(), 0));
  }
  check_step(what, ::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0));
  return UniqueFd(check_step(
      what, ::fsmount(context.get(), FSMOUNT_CLOEXEC, static_cast<unsigned>(mount_attributes))));
}

void set_attributes(int mount, std::uint64_t set, int idmap, const std::string& what) {
  mount_attr attribute{};
  attribute.attr_set = set;
  attribute.propagation = MS_PRIVATE;
  if (idmap >= 0) {
    attribute.attr_set |= MOUNT_ATTR_IDMAP;
    attribute.userns_fd = static_cast<std::uint64_t>(idmap);
  }
  check_step(
      what, ::mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &attribute, sizeof attribute));
}

UniqueFd clone_tree(int directory, const std::string& path, const std::string& what) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
                         (path.empty() ? static_cast<unsigned>(AT_EMPTY_PATH) : 0u);
  return UniqueFd(check_step(what, ::open_tree(directory, path.c_str(), flags)));
}

}  // namespace caisson::guest
