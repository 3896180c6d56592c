#include "cli/local_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

namespace caisson::cli {

namespace {

constexpr int kMaxAttempts = 100;

std::string temporary_name(int attempt) {
  return str(".caisson-", ::getpid(), "-", attempt, ".new");
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

UniqueFd make_directory(int parent, const std::string& name, const std::string& shown) {
  if (::mkdirat(parent, name.c_str(), 0777) < 0 && errno != EEXIST) throw SystemError(shown, errno);
  UniqueFd directory(
      ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) throw SystemError(shown, errno);
  return directory;
}

NewFile::NewFile(int directory, std::string name, std::string shown, bool executable)
    : directory_(directory), name_(std::move(name)), shown_(std::move(shown)) {
  struct stat info {};
  if (::fstatat(directory_, name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      !S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::validation_error,
                str(shown_, " is there and is no regular file: name another one"));
  }
  const mode_t mode = executable ? 0777 : 0666;
  file_ = UniqueFd(::openat(directory_, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode));
  for (int attempt = 0; !file_; ++attempt) {
    temporary_ = temporary_name(attempt);
    file_ = UniqueFd(::openat(directory_, temporary_.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file_ && (errno != EEXIST || attempt == kMaxAttempts)) {
      temporary_.clear();
      throw SystemError(shown_, errno);
    }
  }
}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlinkat(directory_, temporary_.c_str(), 0);
}

void NewFile::write(std::string_view bytes) {
  write_all(file_.get(), bytes, shown_);
}

// Only a name can take the place of another one.
void NewFile::give_name() {
  const std::string self = str("/proc/self/fd/", file_.get());
  for (int attempt = 0;; ++attempt) {
    const std::string name = temporary_name(attempt);
    if (::linkat(AT_FDCWD, self.c_str(), directory_, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      return;
    }
    if (errno != EEXIST || attempt == kMaxAttempts) throw SystemError(shown_, errno);
  }
}

void NewFile::commit() {
  if (temporary_.empty()) give_name();
  check_syscall(shown_, ::renameat(directory_, temporary_.c_str(), directory_, name_.c_str()));
  temporary_.clear();
}

}  // namespace caisson::cli
