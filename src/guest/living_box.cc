#include "guest/living_box.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "guest/mount_calls.h"
#include "guest/step_error.h"

namespace caisson::guest {

namespace {

// One component, mounts included; never a link. -1 and errno.
int open_child(int directory, const std::string& name) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how));
}

bool is_mount(int place) {
  struct statx info {};
  return ::syscall(SYS_statx, place, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &info) == 0 &&
         (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

bool is_directory(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
}

// While it lives, files are made by this user and with no more than its rights.
class ActingAs {
 public:
  explicit ActingAs(std::uint32_t id) {
    ::setfsgid(id);
    ::setfsuid(id);
  }
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;
  ~ActingAs() {
    ::setfsuid(::geteuid());
    ::setfsgid(::getegid());
  }
};

UniqueFd make_directory(int parent, const std::string& name, std::uint32_t owner,
                        const std::string& path) {
  const ActingAs acting(owner);
  if (::mkdirat(parent, name.c_str(), 0755) < 0 && errno != EEXIST) {
    throw StepError{str("make ", path), errno};
  }
  return UniqueFd(check_step(str("make ", path), open_child(parent, name)));
}

// A path in the box: the open directory that the last component is in, and that component.
struct Place {
  UniqueFd parent;
  std::string name;
};

class Box {
 public:
  // Joins the mount namespace.
  explicit Box(int mounts) {
    check_step("join the box's mounts", ::setns(mounts, CLONE_NEWNS));
    root_ =
        UniqueFd(check_step("open the box's root", ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)));
  }

  // Directories that are missing on the way are made by `maker`; without one there is no such
  // place.
  std::optional<Place> find(const std::string& path, std::optional<std::uint32_t> maker) const {
    std::vector<std::string_view> parts = split(std::string_view(path).substr(1), '/');
    Place place{.parent = UniqueFd(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 3)),
                .name = std::string(parts.back())};
    parts.pop_back();
    for (const std::string_view part : parts) {
      const std::string name(part);
      UniqueFd next(open_child(place.parent.get(), name));
      if (!next && errno == ENOENT) {
        if (!maker) return std::nullopt;
        next = make_directory(place.parent.get(), name, *maker, path);
      }
      place.parent = UniqueFd(check_step(str("find ", path), next.release()));
    }
    return place;
  }

  // What is mounted there is hidden; false when nothing is.
  static bool unmount(const Place& place) {
    if (::fchdir(place.parent.get()) < 0) return false;
    return ::umount2(place.name.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0;
  }

 private:
  UniqueFd root_;
};

void attach(int mount, int place, const std::string& path) {
  check_step(str("mount at ", path),
             ::move_mount(mount, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}

// Through which the file system of a holder can be written to.
UniqueFd writable_view(int holder, const std::string& what) {
  UniqueFd view = clone_tree(holder, "", what);
  mount_attr attribute{};
  attribute.attr_clr = MOUNT_ATTR_RDONLY;
  check_step(what, ::mount_setattr(view.get(), "", AT_EMPTY_PATH, &attribute, sizeof attribute));
  return view;
}

// A file system of mount points that goes with the box, which sees it read-only: the payload of an
// ordinary user owns it.
UniqueFd make_holder(const Box& box, const std::string& path, std::uint32_t owner) {
  const std::string what = str("make ", path);
  const std::optional<Place> place = box.find(path, owner);
  UniqueFd directory(open_child(place->parent.get(), place->name));
  if (!directory && errno == ENOENT) {
    directory = make_directory(place->parent.get(), place->name, owner, path);
  }
  check_step(str("find ", path), directory.get());
  if (!is_mount(directory.get())) {
    const UniqueFd points = new_file_system(
        "tmpfs", {{"size", "65536"}, {"nr_inodes", "1024"}, {"mode", "0755"}},
        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, what);
    attach(points.get(), directory.get(), path);
    directory = UniqueFd(check_step(what, open_child(place->parent.get(), place->name)));
  }
  return writable_view(directory.get(), what);
}

// `holder` is a view of the holder that the place is in, or invalid.
UniqueFd make_point(const Place& place, const wire::ShowMount& request, const UniqueFd& holder,
                    bool directory) {
  UniqueFd point(open_child(place.parent.get(), place.name));
  if (point || errno != ENOENT) {
    return UniqueFd(check_step(str("find ", request.target), point.release()));
  }
  // In a holder only we can make one.
  const std::uint32_t maker = holder ? ::geteuid() : request.owner;
  const int parent = holder ? holder.get() : place.parent.get();
  const std::string what = str("make ", request.target);
  if (directory) {
    make_directory(parent, place.name, maker, request.target);
  } else {
    const ActingAs acting(maker);
    const UniqueFd file(
        check_step(what, ::openat(parent, place.name.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444)));
  }
  return UniqueFd(check_step(what, open_child(place.parent.get(), place.name)));
}

// An ordinary user is root in the namespace that the box's mounts belong to, and may bind what it
// sees there.
UniqueFd bind_source(const wire::ShowMount& request, int mounts) {
  const std::string what = str("bind ", request.source);
  const UniqueFd users(check_step(what, ::ioctl(mounts, NS_GET_USERNS)));
  check_step(what, ::setns(users.get(), CLONE_NEWUSER));
  check_step(what, ::unshare(CLONE_NEWNS));
  UniqueFd tree = clone_tree(AT_FDCWD, request.source, what);
  struct stat info {};
  check_step(what, ::fstat(tree.get(), &info));
  if (info.st_dev != request.expected_device || info.st_ino != request.expected_inode) {
    throw StepError{what, ESTALE};
  }
  const std::uint32_t access = request.read_only ? wire::kReadOnly : 0;
  set_attributes(tree.get(), attributes(access | wire::kNoSuid | wire::kNoDev), -1, what);
  return tree;
}

void check_target(const std::string& target) {
  if (target.size() < 2 || target[0] != '/') throw StepError{"mount at a path", EINVAL};
}

}  // namespace

void show_mount(const wire::ShowMount& request, const std::vector<UniqueFd>& fds) {
  check_target(request.target);
  const bool prepared = request.source.empty();
  if (fds.size() != (prepared ? 2u : 1u)) throw StepError{"mount without its descriptors", EBADF};
  UniqueFd bound;
  if (!prepared) bound = bind_source(request, fds[0].get());
  const int mount = prepared ? fds[1].get() : bound.get();
  const Box box(fds[0].get());
  UniqueFd holder;
  if (!request.holder.empty()) holder = make_holder(box, request.holder, request.owner);
  const std::optional<Place> place = box.find(request.target, request.owner);
  UniqueFd point = make_point(*place, request, holder, is_directory(mount));
  if (is_mount(point.get())) {
    // An owner that was killed before it noted what it showed shows it again.
    const bool ours = request.replace || same_file(mount, point.get());
    if (!ours || !Box::unmount(*place)) {
      throw StepError{str("mount at ", request.target), EBUSY};
    }
    point = make_point(*place, request, holder, is_directory(mount));
  }
  attach(mount, point.get(), request.target);
}

void hide_mount(const wire::HideMount& request, const std::vector<UniqueFd>& fds) {
  check_target(request.target);
  if (fds.size() != 1) throw StepError{"mount without its descriptors", EBADF};
  // The mounts of an ordinary user's box are its own only in there.
  const UniqueFd users(::ioctl(fds[0].get(), NS_GET_USERNS));
  if (users) ::setns(users.get(), CLONE_NEWUSER);
  const Box box(fds[0].get());
  const std::optional<Place> place = box.find(request.target, std::nullopt);
  if (!place || !Box::unmount(*place) || request.holder.empty()) return;
  const UniqueFd holder = writable_view(place->parent.get(), str("hide ", request.target));
  ::unlinkat(holder.get(), place->name.c_str(), AT_REMOVEDIR);
}

}  // namespace caisson::guest
