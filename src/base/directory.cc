#include "base/directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson {

namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr unsigned kMaxRemovalDepth = 32;  // two descriptors each
constexpr int kAttempts = 16;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

[[noreturn]] void fail_removal(const std::string& name, int error_number) {
  throw SystemError(str("remove ", printable(name)), error_number);
}

// Opens a directory for removal also where its mode keeps its owner out. Invalid, with errno, when
// it is gone or no directory any more.
UniqueFd open_for_removal(int directory, const std::string& name) {
  UniqueFd fd(::openat(directory, name.c_str(), kOpenDirectory));
  if (!fd && errno == EACCES) {
    const UniqueFd closed = open_file_at(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    check_syscall(name, ::chmod(str("/proc/self/fd/", closed.get()).c_str(), 0700));
    fd.reset(::openat(directory, name.c_str(), kOpenDirectory));
  }
  if (!fd && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) return fd;
  if (!fd) fail_removal(name, errno);
  static_cast<void>(::fchmod(fd.get(), 0700));  // who may not do that may still empty it
  return fd;
}

class TreeRemoval {
 public:
  // What is there may change while it is removed: somebody who swaps it without end gets no more
  // than a few attempts.
  void remove(int directory, const std::string& name, unsigned depth = 0) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      // Most entries are files, and unlink never follows: only what it refuses is looked at.
      if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return;
      const int refused = errno;
      if (refused != EISDIR && refused != EPERM) fail_removal(name, refused);
      if (remove_directory(directory, name, depth)) return;
      if (refused == EPERM) fail_removal(name, refused);
    }
    fail_removal(name, errno);
  }

 private:
  // False, with errno, when it is no directory any more.
  bool remove_directory(int directory, const std::string& name, unsigned depth) {
    const UniqueFd child = open_for_removal(directory, name);
    if (!child) return errno == ENOENT;
    if (depth == kMaxRemovalDepth) {
      move_up(directory, name);
      return true;
    }
    if (depth == 0) top_ = child.get();
    do {
      moved_ = moved_ && depth != 0;
      for_each_entry(child.get(), name,
                     [&](const dirent& entry) { remove(child.get(), entry.d_name, depth + 1); });
    } while (depth == 0 && moved_);
    if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
    if (errno != ENOTDIR) fail_removal(name, errno);
    return false;
  }

  // What is too deep for one descent is moved to the top, and removed from there.
  void move_up(int directory, const std::string& name) {
    moved_ = true;
    for (;;) {
      const std::string above = str(".deep-", ++count_);
      if (::renameat2(directory, name.c_str(), top_, above.c_str(), RENAME_NOREPLACE) == 0) return;
      if (errno == ENOENT) return;
      if (errno != EEXIST) fail_removal(name, errno);
    }
  }

  int top_ = -1;
  bool moved_ = false;
  std::uint64_t count_ = 0;
};

class TreeMeasure {
 public:
  void directory(int directory, unsigned depth) {
    try {
      for_each_entry(directory, "directory",
                     [&](const dirent& found) { entry(directory, found.d_name, depth); });
    } catch (const SystemError&) {
      ++usage_.errors;
    }
  }

  const TreeUsage& usage() const { return usage_; }

 private:
  void entry(int directory, const char* name, unsigned depth) {
    struct stat info {};
    if (::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) < 0) return count_failure();
    if (S_ISDIR(info.st_mode)) {
      ++usage_.directories;
      usage_.allocated += allocated(info);
      return below(directory, name, depth + 1);
    }
    if (info.st_nlink > 1 && !seen_.insert({info.st_dev, info.st_ino}).second) return;
    ++usage_.files;
    usage_.size += static_cast<std::uint64_t>(info.st_size);
    usage_.allocated += allocated(info);
  }

  void below(int parent, const char* name, unsigned depth) {
    if (depth > kDeepestTree) {
      ++usage_.errors;
      return;
    }
    const UniqueFd child(::openat(parent, name, kOpenDirectory));
    if (!child) return count_failure();
    directory(child.get(), depth);
  }

  static std::uint64_t allocated(const struct stat& info) {
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }

  void count_failure() {
    if (errno != ENOENT) ++usage_.errors;
  }

  TreeUsage usage_;
  std::set<std::pair<dev_t, ino_t>> seen_;  // files with several names
};

}  // namespace

void for_each_entry(int directory, std::string_view subject,
                    const std::function<void(const dirent&)>& visit) {
  // A description of its own, so that nobody else's place in the directory moves.
  UniqueFd own(
      check_syscall(subject, ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  const std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(own.get()));
  if (!stream) throw SystemError(subject, errno);
  static_cast<void>(own.release());  // the stream closes it
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") visit(*entry);
  }
  if (errno != 0) throw SystemError(subject, errno);
}

void remove_tree(int directory, const std::string& name) {
  TreeRemoval().remove(directory, name);
}

TreeUsage measure_tree(int directory) {
  TreeMeasure measure;
  measure.directory(directory, 0);
  return measure.usage();
}

}  // namespace caisson
