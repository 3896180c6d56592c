#include "quota/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/directory.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "quota/walk.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;
using FileKey = std::pair<dev_t, ino_t>;

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

std::string value_of(int fd, const char* name) {
  std::string value(65536, '\0');  // the most an extended attribute holds
  const ssize_t size = ::fgetxattr(fd, name, value.data(), value.size());
  value.resize(static_cast<std::size_t>(check_syscall(name, size)));
  return value;
}

void copy_extended(int from, int to) {
  std::string names(65536, '\0');
  const ssize_t size = ::flistxattr(from, names.data(), names.size());
  if (size < 0 && errno == EOPNOTSUPP) return;
  names.resize(static_cast<std::size_t>(check_syscall("list extended attributes", size)));
  for (std::size_t at = 0; at < names.size(); at += std::string(names.c_str() + at).size() + 1) {
    const char* name = names.c_str() + at;
    const std::string value = value_of(from, name);
    if (::fsetxattr(to, name, value.data(), value.size(), 0) < 0 && errno != EOPNOTSUPP) {
      throw SystemError(str("extended attribute ", name), errno);
    }
  }
}

// Shares the blocks where the file system can; otherwise copies what is not a hole.
void copy_content(int from, int to, off_t size, const std::string& name) {
  if (::ioctl(to, FICLONE, from) == 0) return;
  check_syscall(name, ::ftruncate(to, size));
  const auto buffer = std::make_unique<char[]>(1u << 20);
  for (off_t at = 0; at < size;) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;  // a hole up to the end
    off_t end = check_syscall(name, ::lseek(from, check_syscall(name, data), SEEK_HOLE));
    for (at = data; at < end;) {
      const std::size_t want = static_cast<std::size_t>(std::min<off_t>(end - at, 1 << 20));
      const ssize_t got = check_syscall(name, ::pread(from, buffer.get(), want, at));
      if (got == 0) return;
      check_syscall(name, ::lseek(to, at, SEEK_SET));
      write_all(to, {buffer.get(), static_cast<std::size_t>(got)}, name);
      at += got;
    }
  }
}

class Copy {
 public:
  explicit Copy(int target) : target_(target) {}

  void directory(int from, int to, const std::string& path, unsigned depth) {
    for_each_name(from, depth, [&](const std::string& name) {
      entry(from, to, name, path.empty() ? name : str(path, "/", name), depth);
    });
  }

 private:
  void entry(int from, int to, const std::string& name, const std::string& path, unsigned depth) {
    struct stat status {};
    check_syscall(path, ::fstatat(from, name.c_str(), &status, AT_SYMLINK_NOFOLLOW));
    if (S_ISDIR(status.st_mode)) {
      check_syscall(path, ::mkdirat(to, name.c_str(), 0700));
      const UniqueFd source = open_file_at(from, name, kDirectory);
      const UniqueFd copy = open_file_at(to, name, kDirectory);
      directory(source.get(), copy.get(), path, depth + 1);
      copy_attributes(source.get(), copy.get());
    } else if (!is_known_link(status, to, name, path)) {
      if (S_ISREG(status.st_mode)) {
        file(from, to, name, path);
      } else {
        special(from, to, name, path, status);
      }
    }
  }

  // A second name of a file that is there already. One whose first name is too long to be named
  // becomes a file of its own.
  bool is_known_link(const struct stat& status, int to, const std::string& name,
                     const std::string& path) {
    if (status.st_nlink < 2) return false;
    const auto [known, is_new] = links_.try_emplace({status.st_dev, status.st_ino}, path);
    return !is_new && ::linkat(target_, known->second.c_str(), to, name.c_str(), 0) == 0;
  }

  static void file(int from, int to, const std::string& name, const std::string& path) {
    const UniqueFd source = open_file_at(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat status {};
    check_syscall(path, ::fstat(source.get(), &status));
    const UniqueFd copy = open_file_at(to, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    copy_content(source.get(), copy.get(), status.st_size, path);
    copy_attributes(source.get(), copy.get());
  }

  static void special(int from, int to, const std::string& name, const std::string& path,
                      const struct stat& status) {
    if (S_ISLNK(status.st_mode)) {
      std::string content(4096, '\0');
      const ssize_t size = ::readlinkat(from, name.c_str(), content.data(), content.size());
      content.resize(static_cast<std::size_t>(check_syscall(path, size)));
      check_syscall(path, ::symlinkat(content.c_str(), to, name.c_str()));
    } else {
      check_syscall(path, ::mknodat(to, name.c_str(), status.st_mode, status.st_rdev));
    }
    check_syscall(path,
                  ::fchownat(to, name.c_str(), status.st_uid, status.st_gid, AT_SYMLINK_NOFOLLOW));
    if (!S_ISLNK(status.st_mode)) {
      check_syscall(path, ::fchmodat(to, name.c_str(), status.st_mode & 07777u, 0));
    }
    const timespec times[2] = {status.st_atim, status.st_mtim};
    check_syscall(path, ::utimensat(to, name.c_str(), times, AT_SYMLINK_NOFOLLOW));
  }

  int target_;
  std::map<FileKey, std::string> links_;  // of files with several names: the first, as copied
};

}  // namespace

void for_each_name(int directory, unsigned depth,
                   const std::function<void(const std::string& name)>& visit) {
  if (depth > kDeepestTree) {
    throw Error(ErrorCode::validation_error,
                str("directories are nested deeper than ", kDeepestTree, " levels; flatten them"));
  }
  std::vector<std::string> names;  // before anything is changed
  for_each_entry(directory, "a directory to be limited",
                 [&](const dirent& entry) { names.emplace_back(entry.d_name); });
  for (const std::string& name : names) visit(name);
}

void walk(int directory,
          const std::function<void(int, const std::string&, const struct stat&)>& visit,
          unsigned depth) {
  for_each_name(directory, depth, [&](const std::string& name) {
    struct stat status {};
    check_syscall(name, ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW));
    visit(directory, name, status);
    if (!S_ISDIR(status.st_mode)) return;
    const UniqueFd below = open_file_at(directory, name, kDirectory);
    walk(below.get(), visit, depth + 1);
  });
}

void copy_tree(int from, int to) {
  Copy(to).directory(from, to, "", 0);
}

void copy_attributes(int from, int to) {
  struct stat status {};
  check_syscall("attributes", ::fstat(from, &status));
  check_syscall("owner", ::fchown(to, status.st_uid, status.st_gid));
  check_syscall("mode", ::fchmod(to, status.st_mode & 07777u));
  copy_extended(from, to);
  const timespec times[2] = {status.st_atim, status.st_mtim};
  check_syscall("times", ::futimens(to, times));
}

Limit needed_by(int directory) {
  const TreeUsage usage = measure_tree(directory);
  if (usage.errors > 0) {
    throw Error(ErrorCode::validation_error,
                str(usage.errors, " entries cannot be read or are nested deeper than ",
                    kDeepestTree, " levels; move or flatten them"));
  }
  return {.bytes = usage.allocated, .inodes = usage.files + usage.directories};
}

void empty_tree(int directory) {
  for_each_name(directory, 0, [&](const std::string& name) { remove_tree(directory, name); });
}

void remove_directory(const fs::path& path) {
  const UniqueFd parent = open_file(path.parent_path(), O_RDONLY | O_DIRECTORY);
  remove_tree(parent.get(), path.filename());
}

void sync_tree(int directory, const fs::path& name) {
  check_syscall(name.native(), ::syncfs(directory));
}

}  // namespace caisson::quota
