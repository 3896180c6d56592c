#include "backend/native/mount_source.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {
namespace {

// Where the descriptor really leads, as the kernel sees it.
std::string resolved_path(int fd, const std::string& host_path) {
  const std::string link = str("/proc/self/fd/", fd);
  std::string path(4096, '\0');
  const ssize_t length =
      check_syscall(host_path, ::readlink(link.c_str(), path.data(), path.size()));
  path.resize(static_cast<std::size_t>(length));
  return path;
}

// Makes what is missing of the path, below the part of it that exists and that `judge` was shown in
// its resolved form together with the rest. Gives an invalid descriptor with errno.
UniqueFd make_directories(const std::string& host_path,
                          const std::function<void(const std::string&)>& judge) {
  std::string existing = normalise_path(host_path);
  std::vector<std::string> missing;
  UniqueFd place;
  for (;;) {
    place = UniqueFd(::open(existing.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (place || errno != ENOENT) break;
    const std::size_t slash = existing.rfind('/');
    missing.insert(missing.begin(), existing.substr(slash + 1));
    existing.resize(std::max<std::size_t>(slash, 1));
  }
  if (!place) return place;
  judge(normalise_path(str(resolved_path(place.get(), host_path), "/", join(missing, "/"))));
  struct stat parent {};
  if (::fstat(place.get(), &parent) < 0) return {};
  for (const std::string& name : missing) {
    const bool made = ::mkdirat(place.get(), name.c_str(), 0755) == 0;
    if (!made && errno != EEXIST) return {};  // somebody else may make it at the same time
    // The new directory belongs to whom the one above it belongs, as if its owner had made it.
    if (made && ::geteuid() == 0 &&
        ::fchownat(place.get(), name.c_str(), parent.st_uid, parent.st_gid, AT_SYMLINK_NOFOLLOW) <
            0) {
      return {};
    }
    place = UniqueFd(
        ::openat(place.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!place) return place;
  }
  return place;
}

}  // namespace

MountSource open_mount_source(const std::string& host_path, model::MountMode mode,
                              const model::MountRules& rules) {
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::mount_refused,
                 str("host path ", printable(host_path), " cannot be mounted: ", why));
  };
  // The sentence that clients of LangBot's runtime know, and the reason.
  const auto judge = [&](const std::string& resolved) {
    if (const std::string why = model::mount_refusal(resolved, mode, rules); !why.empty()) {
      throw Error(ErrorCode::mount_refused,
                  str("host_path ", printable(host_path), " is blocked for security: ", why));
    }
  };
  if (!host_path.starts_with("/")) throw refuse("it is not an absolute path of this host");
  MountSource source;
  source.place = UniqueFd(::open(host_path.c_str(), O_PATH | O_CLOEXEC));
  if (!source.place && errno == ENOENT && mode == model::MountMode::rw) {
    source.place = make_directories(host_path, judge);
  }
  if (!source.place) {
    throw refuse(errno == ENOENT ? "it does not exist" : error_text(errno));
  }
  struct stat info {};
  check_syscall(host_path, ::fstat(source.place.get(), &info));
  source.resolved = resolved_path(source.place.get(), host_path);
  judge(source.resolved);
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) {
    throw refuse("it is neither a directory nor a regular file");
  }
  source.is_directory = S_ISDIR(info.st_mode);
  source.owner = info.st_uid;
  source.group = info.st_gid;
  source.device = info.st_dev;
  source.inode = info.st_ino;
  return source;
}

UniqueFd detached_mount(const MountSource& source, model::MountMode mode, int idmap) {
  UniqueFd tree(check_syscall(
      source.resolved,
      ::open_tree(source.place.get(), "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)));
  mount_attr attribute{};
  attribute.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  if (mode != model::MountMode::rw) attribute.attr_set |= MOUNT_ATTR_RDONLY;
  attribute.propagation = MS_PRIVATE;
  if (idmap >= 0) {
    attribute.attr_set |= MOUNT_ATTR_IDMAP;
    attribute.userns_fd = static_cast<std::uint64_t>(idmap);
  }
  check_syscall(source.resolved,
                ::mount_setattr(tree.get(), "", AT_EMPTY_PATH, &attribute, sizeof attribute));
  return tree;
}

}  // namespace caisson::backend::native
