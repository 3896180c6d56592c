#include "guest/root.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <utility>

#include "base/str.h"
#include "guest/mount_calls.h"
#include "guest/step_error.h"

namespace caisson::guest {

namespace {

// Where the scratch file system keeps what is mounted elsewhere. No process of the box may enter
// it.
constexpr char kLayers[] = ".layers";

// An overlay without a writable layer has two others at least. This directory of every launcher's
// root is empty: what a box sees there is mounted over it.
constexpr char kEmptyLayer[] = "/dev/shm";

}  // namespace

Root::Root(const std::vector<UniqueFd>& fds)
    : fds_(fds),
      root_(check_step("open the root", ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC))) {}

int Root::fd(wire::FdIndex index, const std::string& what) const {
  if (index >= fds_.size()) throw StepError{what, EBADF};
  return fds_[index].get();
}

UniqueFd Root::target(const std::string& path) const {
  return UniqueFd(open_in_root(root_.get(), path, O_PATH));
}

// The mount point, made with its parents when it is missing.
UniqueFd Root::make_target(const std::string& path, bool directory) const {
  UniqueFd existing = target(path);
  if (existing || errno != ENOENT) return existing;
  const std::size_t slash = path.find_last_of('/');
  const std::string parent_path = slash == std::string::npos ? "" : path.substr(0, slash);
  const std::string name = path.substr(slash + 1);
  const UniqueFd parent = make_target(parent_path.empty() ? "/" : parent_path, true);
  if (!parent) return {};
  if (directory) {
    if (::mkdirat(parent.get(), name.c_str(), 0755) < 0 && errno != EEXIST) return {};
  } else {
    const UniqueFd file(
        ::openat(parent.get(), name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444));
    if (!file) return {};
  }
  return target(path);
}

void Root::attach(int mount, const std::string& path) const {
  struct stat info {};
  check_step(str("attach at ", path), ::fstat(mount, &info));
  const UniqueFd place = make_target(path, S_ISDIR(info.st_mode));
  check_step(str("find mount point ", path), place.get());
  check_step(
      str("attach at ", path),
      ::move_mount(mount, "", place.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}

// Mounted over "/", where no absolute path of this process sees it, so sources stay reachable.
void Root::become_root(UniqueFd mount) {
  check_step("attach the new root",
             ::move_mount(mount.get(), "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH));
  root_ = std::move(mount);
  root_is_new_ = true;
}

void Root::apply(const wire::NewRoot& step) {
  UniqueFd mount =
      new_file_system("tmpfs",
                      {{"size", std::to_string(step.bytes)},
                       {"nr_inodes", std::to_string(step.inodes)},
                       {"mode", "0755"}},
                      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "make the root file system");
  check_step("own the root", ::fchownat(mount.get(), "", step.owner, step.owner, AT_EMPTY_PATH));
  scratch_ = UniqueFd(check_step("keep the root", ::fcntl(mount.get(), F_DUPFD_CLOEXEC, 3)));
  become_root(std::move(mount));
  scratch_attached_ = true;
  scratch_is_root_ = true;
  owner_ = step.owner;
}

void Root::apply(const wire::BindRoot& step) {
  const std::string what = str("bind ", step.source, " as the root");
  UniqueFd tree = clone_tree(AT_FDCWD, step.source, what);
  set_attributes(tree.get(), attributes(step.flags),
                 step.idmap == wire::kNoFd ? -1 : fd(step.idmap, what), what);
  become_root(std::move(tree));
}

void Root::apply(const wire::MakeDirectory& step) {
  const std::string what = str("make directory ", step.target);
  const UniqueFd place = make_target(step.target, true);
  check_step(what, place.get());
  check_step(what, ::fchownat(place.get(), "", step.owner, step.owner, AT_EMPTY_PATH));
  const UniqueFd handle(check_step(what, open_in_root(root_.get(), step.target, O_RDONLY)));
  check_step(what, ::fchmod(handle.get(), step.mode));
}

void Root::apply(const wire::MakeSymlink& step) {
  const std::string path = step.target.substr(1);
  check_step(str("make symlink ", step.target),
             ::symlinkat(step.content.c_str(), root_.get(), path.c_str()));
  check_step(str("own symlink ", step.target),
             ::fchownat(root_.get(), path.c_str(), owner_, owner_, AT_SYMLINK_NOFOLLOW));
}

void Root::apply(const wire::MakeFile& step) {
  const std::string what = str("make file ", step.target);
  const UniqueFd place = make_target(step.target, false);
  check_step(what, place.get());
  const UniqueFd file(check_step(what, open_in_root(root_.get(), step.target, O_WRONLY | O_TRUNC)));
  std::string_view rest = step.content;
  while (!rest.empty()) {
    rest.remove_prefix(
        static_cast<std::size_t>(check_step(what, ::write(file.get(), rest.data(), rest.size()))));
  }
  check_step(what, ::fchown(file.get(), owner_, owner_));
  check_step(what, ::fchmod(file.get(), step.mode));
}

void Root::apply(const wire::BindHost& step) {
  const std::string what = str("bind ", step.source, " at ", step.target);
  const UniqueFd tree = clone_tree(AT_FDCWD, step.source, what);
  if (step.expected_inode != 0) {
    struct stat info {};
    check_step(what, ::fstat(tree.get(), &info));
    if (info.st_dev != step.expected_device || info.st_ino != step.expected_inode) {
      throw StepError{str(what, ": the source changed while the box was being made"), ESTALE};
    }
  }
  const int idmap = step.idmap == wire::kNoFd ? -1 : fd(step.idmap, what);
  try {
    set_attributes(tree.get(), attributes(step.flags), idmap, what);
  } catch (const StepError&) {
    if (!step.idmap_optional) throw;
    set_attributes(tree.get(), attributes(step.flags), -1, what);
  }
  attach(tree.get(), step.target);
}

void Root::apply(const wire::BindTemplate& step) {
  const std::string what = str("bind ", step.source, " at ", step.target);
  const UniqueFd tree = clone_tree(AT_FDCWD, step.source, what);
  set_attributes(tree.get(), attributes(step.flags), -1, what);
  attach(tree.get(), step.target);
}

void Root::apply(const wire::BindInside& step) {
  const std::string what = str("bind ", step.source, " at ", step.target);
  const UniqueFd source = target(step.source);
  check_step(what, source.get());
  const UniqueFd tree = clone_tree(source.get(), "", what);
  set_attributes(tree.get(), attributes(step.flags), -1, what);
  attach(tree.get(), step.target);
}

void Root::apply(const wire::MakeTmpfs& step) {
  const std::string what = str("make a tmpfs at ", step.target);
  const UniqueFd mount = new_file_system("tmpfs",
                                         {{"size", std::to_string(step.bytes)},
                                          {"nr_inodes", std::to_string(step.inodes)},
                                          {"mode", "0755"}},
                                         MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, what);
  attach(mount.get(), step.target);
  apply(wire::MakeDirectory{.target = step.target, .mode = step.mode, .owner = step.owner});
}

void Root::apply(const wire::AttachMount& step) {
  attach(fd(step.fd, str("attach at ", step.target)), step.target);
}

void Root::apply(const wire::MakeScratch& step) {
  scratch_ = new_file_system("tmpfs",
                             {{"size", std::to_string(step.bytes)},
                              {"nr_inodes", std::to_string(step.inodes)},
                              {"mode", "0755"}},
                             MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "make the scratch file system");
}

// A mount of one directory of the scratch file system. Kernels before 6.15 clone only from a mount
// that is attached, so there it is attached where nobody sees it, until finish().
UniqueFd Root::clone_scratch(const std::string& name) {
  const std::string what = str("scratch directory ", name);
  constexpr unsigned kFlags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
  UniqueFd tree(::open_tree(scratch_.get(), name.c_str(), kFlags));
  if (!tree && errno == EINVAL && !scratch_attached_) {
    check_step(what, ::move_mount(scratch_.get(), "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH));
    scratch_attached_ = true;
    tree = UniqueFd(::open_tree(scratch_.get(), name.c_str(), kFlags));
  }
  check_step(what, tree.get());
  return tree;
}

void Root::apply(const wire::BindScratch& step) {
  const std::string what = str("scratch directory ", step.name);
  if (::mkdirat(scratch_.get(), kLayers, 0700) < 0 && errno != EEXIST) check_step(what, -1);
  const std::string name = str(kLayers, "/", step.name);
  check_step(what, ::mkdirat(scratch_.get(), name.c_str(), 0700));
  check_step(what, ::fchownat(scratch_.get(), name.c_str(), step.owner, step.owner, 0));
  check_step(what, ::fchmodat(scratch_.get(), name.c_str(), step.mode, 0));
  const UniqueFd tree = clone_scratch(name);
  set_attributes(tree.get(), attributes(step.flags), -1, what);
  attach(tree.get(), step.target);
}

void Root::apply(const wire::MountOverlay& step) {
  const std::string what = str("writable layer over ", step.target);
  if (!scratch_attached_) {
    check_step(what, ::move_mount(scratch_.get(), "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH));
    scratch_attached_ = true;
  }
  UniqueFd lower;
  if (step.lower == wire::kNoFd) {
    lower = clone_tree(AT_FDCWD, step.source, what);
    set_attributes(lower.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1, what);
  }
  const int lower_fd = step.lower == wire::kNoFd ? lower.get() : fd(step.lower, what);

  if (::mkdirat(scratch_.get(), kLayers, 0700) < 0 && errno != EEXIST) check_step(what, -1);
  std::string name = str(kLayers, "/overlay");
  for (const char c : step.target) name.push_back(c == '/' ? '+' : c);
  check_step(what, ::mkdirat(scratch_.get(), name.c_str(), 0700));
  const UniqueFd layers(
      check_step(what, ::openat(scratch_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  for (const char* directory : {"lower", "upper", "work"}) {
    check_step(what, ::mkdirat(layers.get(), directory, 0755));
  }
  check_step(what, ::fchownat(layers.get(), "upper", step.owner, step.owner, 0));
  check_step(what, ::move_mount(lower_fd, "", layers.get(), "lower", MOVE_MOUNT_F_EMPTY_PATH));

  // The options are paths relative to here: the directory has no path that this process could name.
  check_step(what, ::fchdir(layers.get()));
  UniqueFd mount;
  if (step.for_ordinary_user) {
    mount = new_file_system(
        "overlay",
        {{"lowerdir", "lower"}, {"upperdir", "upper"}, {"workdir", "work"}, {"userxattr", ""}},
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, what);
  } else {
    mount = new_file_system("overlay",
                            {{"lowerdir", "lower"}, {"upperdir", "upper"}, {"workdir", "work"}},
                            MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, what);
  }
  check_step(what, ::umount2("lower", MNT_DETACH));
  check_step(what, ::chdir("/"));
  if (step.target == "/") {
    become_root(std::move(mount));
  } else {
    attach(mount.get(), step.target);
  }
}

void Root::apply(const wire::MountProc& step) {
  const UniqueFd mount = new_file_system(
      "proc", {}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "mount proc");
  below_proc_ = target(step.target);
  attach(mount.get(), step.target);
}

void Root::apply(const wire::MountTerminals& step) {
  // Terminals are counted for the whole host: without a bound of its own one box could have all.
  std::initializer_list<FileSystemOption> options = {{"newinstance", ""},
                                                     {"max", "256"},
                                                     {"ptmxmode", "0666"},
                                                     {"mode", "0620"},
                                                     {"gid", std::to_string(step.group)}};
  const UniqueFd mount =
      new_file_system("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "mount devpts");
  attach(mount.get(), step.target);
}

// A mount of a directory that is empty and that nobody may enter. The one below proc serves, where
// the plan made it so: a file system of its own would cost every box some memory.
UniqueFd Root::empty_directory(const std::string& what) const {
  constexpr std::uint64_t kAttributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  struct stat info {};
  if (!below_proc_ || ::fstat(below_proc_.get(), &info) < 0 || (info.st_mode & 07777) != 0) {
    return new_file_system("tmpfs", {{"size", "4096"}, {"nr_inodes", "1"}, {"mode", "0"}},
                           kAttributes, what);
  }
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | unsigned{AT_EMPTY_PATH};
  UniqueFd tree(check_step(what, ::open_tree(below_proc_.get(), "", flags)));
  set_attributes(tree.get(), kAttributes, -1, what);
  return tree;
}

// A file is covered by the null device of the launcher's root, with mount(2): every box masks some
// thirty files, and a tree for each that is first cloned and then moved costs half as much again.
void Root::apply(const wire::MaskPath& step) {
  const std::string what = str("mask ", step.target);
  const std::size_t slash = step.target.rfind('/');
  const UniqueFd directory = target(step.target.substr(0, slash));
  check_step(what, directory.get());
  check_step(what, ::fchdir(directory.get()));
  const char* const name = step.target.c_str() + slash + 1;
  const bool covered = ::mount("/dev/null", name, nullptr, MS_BIND, nullptr) == 0;
  const int error_number = covered ? 0 : errno;
  check_step(what, ::chdir("/"));
  if (covered || error_number == ENOENT) return;
  if (error_number != ENOTDIR) throw StepError{what, error_number};
  const UniqueFd place = target(step.target);
  check_step(what, place.get());
  const UniqueFd cover = empty_directory(what);
  check_step(what, ::move_mount(cover.get(), "", place.get(), "",
                                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}

void Root::apply(const wire::MakeReadOnly& step) {
  const std::string what = str("make ", step.target, " read-only");
  if (step.target == "/") {
    mount_attr attribute{};
    attribute.attr_set = MOUNT_ATTR_RDONLY;
    check_step(what, ::mount_setattr(root_.get(), "", AT_EMPTY_PATH, &attribute, sizeof attribute));
    return;
  }
  const UniqueFd place = target(step.target);
  check_step(what, place.get());
  const UniqueFd tree = clone_tree(place.get(), "", what);
  set_attributes(tree.get(), MOUNT_ATTR_RDONLY, -1, what);
  check_step(what, ::move_mount(tree.get(), "", place.get(), "",
                                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}

void Root::apply(const wire::PivotRoot& step) {
  const std::string what = "change the root";
  const std::string old_root = step.keep_host_at.empty() ? "." : step.keep_host_at.substr(1);
  check_step(what, ::fchdir(root_.get()));
  check_step(what, ::syscall(SYS_pivot_root, ".", old_root.c_str()));
  if (step.keep_host_at.empty()) check_step(what, ::umount2(".", MNT_DETACH));
  check_step(what, ::chdir("/"));
  root_is_new_ = false;
  scratch_attached_ = false;
}

void Root::apply(const wire::Unmount& step) {
  check_step(str("unmount ", step.target), ::umount2(step.target.c_str(), MNT_DETACH));
}

// Everything is looked up before the first overlay covers what lies below it.
void Root::apply(const wire::OwnInodes& step) {
  std::vector<UniqueFd> mounts;
  try {
    for (const std::string& path : step.paths) {
      const std::string what =
          str("overlay of ", path, " (to do without: --allow-missing own_inodes)");
      mounts.push_back(new_file_system("overlay", {{"lowerdir", str(kEmptyLayer, ":", path)}},
                                       MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                                       what));
    }
    for (const std::string& path : step.files) {
      mounts.push_back(clone_tree(AT_FDCWD, path, str("bind ", path, " again")));
    }
  } catch (const StepError&) {
    if (!step.optional) throw;
    return;
  }
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const std::size_t file = i - step.paths.size();
    attach(mounts[i].get(), i < step.paths.size() ? step.paths[i] : step.files[file]);
  }
}

void Root::finish() {
  if (root_is_new_) throw StepError{"plan that never changes to its new root", EINVAL};
  if (scratch_attached_ && !scratch_is_root_) {
    check_step("hide the scratch file system", ::fchdir(scratch_.get()));
    check_step("hide the scratch file system", ::umount2(".", MNT_DETACH));
    check_step("hide the scratch file system", ::chdir("/"));
  }
  scratch_.reset();
  below_proc_.reset();
  root_.reset();
}

}  // namespace caisson::guest
