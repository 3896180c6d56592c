#include "backend/fake/files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "backend/artifact_tree.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::fake {
namespace {

constexpr std::array<std::string_view, 12> kPrograms = {
    "/bin/sh",  "/usr/bin/sh",  "/bin/true",     "/bin/false",
    "/bin/cat", "/bin/echo",    "/bin/sleep",    "/bin/mkdir",
    "/bin/pwd", "/usr/bin/env", "/usr/bin/test", "/usr/bin/caisson-payload"};
constexpr std::array<std::string_view, 5> kDirectories = {"/", "/tmp", "/dev/shm", "/etc", "/home"};

// Opens below a mounted directory as a process of the box would: `..` and absolute links end at the
// mount, devices and pipes are never waited for.
UniqueFd open_below(const Mount& mount, const std::string& path, int flags, unsigned mode = 0) {
  open_how how{};
  if ((flags & O_PATH) == 0) flags |= O_NONBLOCK;
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, mount.root.get(), path.c_str(), &how, sizeof how)));
}

// What a box makes in a mounted directory belongs to the owner of that directory.
void give_to_owner(const Mount& mount, int fd) {
  struct stat owner {};
  struct stat made {};
  check_syscall(mount.path, ::fstat(mount.root.get(), &owner));
  check_syscall(mount.path, ::fstat(fd, &made));
  if (owner.st_uid == made.st_uid && owner.st_gid == made.st_gid) return;
  check_syscall(mount.path, ::fchown(fd, owner.st_uid, owner.st_gid));
}

void make_directory_below(const Mount& mount, const std::string& parent, const std::string& name) {
  if (!mount.writable) throw SystemError(str(mount.path, "/", name), EROFS);
  const UniqueFd directory = open_below(mount, parent, O_RDONLY | O_DIRECTORY);
  check_syscall(parent, directory.get());
  check_syscall(name, ::mkdirat(directory.get(), name.c_str(), 0755));
  const UniqueFd made = open_file_at(directory.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  give_to_owner(mount, made.get());
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

}  // namespace

Files::Files(const model::BoxSettings& settings)
    : mounts_(open_mounts(settings)),
      capacity_(static_cast<std::uint64_t>(settings.memory_mb) << 20) {
  for (const std::string_view path : kDirectories) add_directory(std::string(path));
  for (const std::string_view path : kPrograms) {
    add_directory(parent_of(std::string(path)));
    nodes_[std::string(path)] = {FileKind::program, ""};
  }
  for (const Mount& mount : mounts_) add_directory(mount.path);
  writable_ = {"/tmp", "/dev/shm", normalise_path(settings.mount_path)};
  if (!settings.read_only_rootfs) writable_.emplace_back("/");
}

FileKind Files::kind(std::string_view path) const {
  const Place where = place(path);
  if (where.mount == nullptr) {
    const auto node = nodes_.find(where.path);
    return node == nodes_.end() ? FileKind::missing : node->second.kind;
  }
  const UniqueFd fd = open_below(*where.mount, where.path, O_PATH);
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) return FileKind::missing;
  check_syscall(path, fd.get());
  struct stat status {};
  check_syscall(path, ::fstat(fd.get(), &status));
  if (S_ISDIR(status.st_mode)) return FileKind::directory;
  return (status.st_mode & 0111) != 0 ? FileKind::program : FileKind::file;
}

std::string Files::read(std::string_view path) const {
  const Place where = place(path);
  if (where.mount != nullptr) {
    const UniqueFd fd = open_below(*where.mount, where.path, O_RDONLY);
    check_syscall(path, fd.get());
    return read_all(fd.get(), path);
  }
  const auto node = nodes_.find(where.path);
  if (node == nodes_.end()) throw SystemError(path, ENOENT);
  if (node->second.kind == FileKind::directory) throw SystemError(path, EISDIR);
  return node->second.content;
}

void Files::write(std::string_view path, std::string_view content) {
  put(path, content, O_TRUNC);
}

void Files::append(std::string_view path, std::string_view content) {
  put(path, content, O_APPEND);
}

void Files::put(std::string_view path, std::string_view content, int open_flags) {
  const Place where = place(path);
  if (where.mount == nullptr) return put_in_memory(where.path, content, open_flags == O_APPEND);
  if (!where.mount->writable) throw SystemError(path, EROFS);
  const UniqueFd fd = open_below(*where.mount, where.path, O_WRONLY | O_CREAT | open_flags, 0644);
  check_syscall(path, fd.get());
  give_to_owner(*where.mount, fd.get());
  write_all(fd.get(), content, path);
}

void Files::put_in_memory(const std::string& path, std::string_view content, bool keep_old) {
  check_writable(path);
  const auto parent = nodes_.find(parent_of(path));
  if (parent == nodes_.end()) throw SystemError(path, ENOENT);
  if (parent->second.kind != FileKind::directory) throw SystemError(path, ENOTDIR);
  if (bytes_in_memory() + content.size() > capacity_) throw SystemError(path, ENOSPC);
  Node& node = nodes_.try_emplace(path, Node{FileKind::file, ""}).first->second;
  if (node.kind == FileKind::directory) throw SystemError(path, EISDIR);
  if (!keep_old) node.content.clear();
  node.content.append(content);
}

void Files::make_directories(std::string_view path) {
  const std::string normal = normalise_path(path);
  std::string made;
  for (const std::string_view name : split(normal, '/')) {
    if (name.empty()) continue;
    const std::string parent = made.empty() ? "/" : made;
    made += str("/", name);
    const FileKind found = kind(made);
    if (found == FileKind::directory) continue;
    if (found != FileKind::missing) throw SystemError(made, ENOTDIR);
    const Place where = place(made);
    if (where.mount != nullptr) {
      make_directory_below(*where.mount, place(parent).path, std::string(name));
    } else {
      check_writable(made);
      nodes_[made] = {FileKind::directory, ""};
    }
  }
}

std::uint64_t Files::bytes_in_memory() const {
  std::uint64_t bytes = 0;
  for (const auto& [path, node] : nodes_) bytes += node.content.size();
  return bytes;
}

void Files::show(const model::MountSpec& mount) {
  std::vector<Mount> more;
  if (mount.is_artifact()) {
    std::erase_if(mounts_, [&](const Mount& other) { return other.path == mount.mount_path; });
    more.push_back(open_artifact(mount, copies_.path()));
  } else {
    model::BoxSettings only;
    only.extra_mounts.push_back(mount);
    more = open_mounts(only);
  }
  for (Mount& one : more) {
    std::erase_if(mounts_, [&](const Mount& other) {
      return other.path == one.path && same_file(other.root.get(), one.root.get());
    });
    const auto taken = [&](const Mount& other) { return other.path == one.path; };
    if (std::ranges::any_of(mounts_, taken)) {
      throw Error(ErrorCode::session_conflict,
                  str("something is mounted at ", one.path, " already"));
    }
    add_directory(one.path);
    mounts_.push_back(std::move(one));
  }
  const auto longer = [](const Mount& a, const Mount& b) { return a.path.size() > b.path.size(); };
  std::ranges::stable_sort(mounts_, longer);
}

void Files::hide(const model::MountSpec& mount) {
  std::erase_if(mounts_,
                [&](const Mount& other) { return is_within(other.path, mount.mount_path); });
  nodes_.erase(mount.mount_path);
  if (mount.is_artifact()) remove_artifact(copies_.path(), *mount.content_digest);
}

Files::Place Files::place(std::string_view path) const {
  std::string normal = normalise_path(path);
  for (const Mount& mount : mounts_) {
    if (!is_within(normal, mount.path)) continue;
    const std::size_t prefix = mount.path == "/" ? 0 : mount.path.size();
    return {&mount, str(".", normal.substr(prefix))};
  }
  return {nullptr, std::move(normal)};
}

void Files::check_writable(const std::string& path) const {
  for (const std::string& root : writable_) {
    if (is_within(path, root)) return;
  }
  throw SystemError(path, EROFS);
}

void Files::add_directory(const std::string& path) {
  nodes_.try_emplace(path);
  if (path != "/") add_directory(parent_of(path));
}

}  // namespace caisson::backend::fake
