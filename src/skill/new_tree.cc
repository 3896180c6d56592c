#include "skill/new_tree.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <vector>

#include "base/beneath.h"
#include "base/directory.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model/object_reader.h"
#include "skill/limits.h"

namespace caisson::skill {

UniqueFd NewTree::open_directory(const std::string& path) {
  UniqueFd current = open_file_at(root_, ".", O_RDONLY | O_DIRECTORY);
  if (path.empty()) return current;
  for (const std::string_view part : split(path, '/')) {
    const std::string name(part);
    if (::mkdirat(current.get(), name.c_str(), 0755) == 0) {
      current = open_file_at(current.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      check_syscall(path, ::fchmod(current.get(), 0755));
    } else if (errno == EEXIST) {
      current = open_file_at(current.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    } else {
      throw SystemError(path, errno);
    }
  }
  return current;
}

void NewTree::add_directory(const std::string& path) {
  open_directory(path);
}

UniqueFd NewTree::add_file(const std::string& path, bool is_executable) {
  const std::size_t slash = path.rfind('/');
  const UniqueFd parent = open_directory(slash == std::string::npos ? "" : path.substr(0, slash));
  const std::string name = path.substr(slash + 1);
  UniqueFd file = open_file_at(parent.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  check_syscall(path, ::fchmod(file.get(), is_executable ? 0755 : 0644));
  return file;
}

namespace {

class PackageCopy {
 public:
  explicit PackageCopy(int target) : tree_(target) {}

  void copy_directory(int directory, const std::string& path, std::size_t depth) {
    if (depth > kMaxDepth) refuse_entry("contains a directory that is too deep", path);
    for_each_entry(directory, path, [&](const dirent& entry) {
      if (++entries_ > kMaxEntries) {
        model::refuse(str("Skill package contains too many entries (maximum ", kMaxEntries, ")"));
      }
      copy_entry(directory, entry.d_name, join_path(path, entry.d_name), depth);
    });
  }

 private:
  [[noreturn]] static void refuse_entry(std::string_view fault, std::string_view path) {
    model::refuse(str("Skill package ", fault, ": ", printable(path)));
  }

  // Opened first and judged afterwards: what it was by its name a moment ago does not matter.
  void copy_entry(int directory, const std::string& name, const std::string& path,
                  std::size_t depth) {
    const UniqueFd place = open_beneath(directory, name, O_PATH | O_NOFOLLOW, Links::inside);
    if (!place && errno == ENOENT) return;  // removed meanwhile
    struct stat info {};
    check_syscall(path, place.get());
    check_syscall(path, ::fstat(place.get(), &info));
    if (S_ISLNK(info.st_mode)) refuse_entry("contains a symbolic link", path);
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
      refuse_entry("contains a non-regular entry", path);
    }
    if (!is_utf8(path) || path.size() > kMaxPathBytes) {
      refuse_entry("contains an unsafe path", path);
    }
    const int kind = S_ISDIR(info.st_mode) ? O_DIRECTORY : 0;
    const UniqueFd fd = open_beneath(directory, name, O_RDONLY | kind, Links::refuse);
    struct stat opened {};
    if (!fd || ::fstat(fd.get(), &opened) < 0 || opened.st_dev != info.st_dev ||
        opened.st_ino != info.st_ino) {
      refuse_entry("changed while it was copied", path);
    }
    if (S_ISDIR(info.st_mode)) {
      tree_.add_directory(path);
      copy_directory(fd.get(), path, depth + 1);
    } else {
      copy_file(fd.get(), path, (info.st_mode & 0111) != 0);
    }
  }

  void copy_file(int source, const std::string& path, bool is_executable) {
    const UniqueFd target = tree_.add_file(path, is_executable);
    std::string piece(64u << 10, '\0');
    for (std::uint64_t size = 0;;) {
      const ssize_t got = ::read(source, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      check_syscall(path, got);
      if (got == 0) return;
      const auto bytes = static_cast<std::size_t>(got);
      size += bytes;
      total_ += bytes;
      if (size > kMaxFileBytes) refuse_entry("file exceeds the size limit", path);
      if (total_ > kMaxTotalBytes) model::refuse("Skill package exceeds the total size limit");
      write_all(target.get(), std::string_view(piece).substr(0, bytes), path);
    }
  }

  NewTree tree_;
  std::size_t entries_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

void copy_package(int source, int target) {
  PackageCopy(target).copy_directory(source, "", 0);
}

}  // namespace caisson::skill
