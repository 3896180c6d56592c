#include "daemon/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::daemon {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const fs::path& path, std::string_view cause) {
  throw Error(ErrorCode::system_error, str("state directory ", path.native(), " ", cause));
}

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) throw SystemError(path.parent_path().native(), error.value());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw SystemError(path.native(), errno);
}

// The mode of a directory that is there already stays: it may be one that others have to read. What
// we keep in it is closed file by file.
UniqueFd open_directory(const fs::path& path) {
  UniqueFd directory = open_file(path, O_RDONLY | O_DIRECTORY);
  struct stat status {};
  check_syscall(path.native(), ::fstat(directory.get(), &status));
  if (status.st_uid != ::geteuid()) {
    refuse(path, str("belongs to user ", status.st_uid, ": choose another with --state"));
  }
  if ((status.st_mode & 022u) != 0) {
    refuse(path, str("can be written by others: chmod 700 ", path.native(),
                     " or choose another with --state"));
  }
  return directory;
}

// Nothing while the other daemon has the lock and has not written its pid yet.
std::optional<pid_t> find_holder(const UniqueFd& lock) {
  check_syscall("lock", ::lseek(lock.get(), 0, SEEK_SET));
  const auto number = parse_integer(trim(read_all(lock.get(), "lock", 64)));
  if (!number || *number <= 0) return std::nullopt;
  return static_cast<pid_t>(*number);
}

std::string holder(const UniqueFd& lock) {
  const std::optional<pid_t> pid = find_holder(lock);
  return pid ? str("pid ", *pid) : "another process";
}

bool take_lock(const UniqueFd& lock, const std::string& name) {
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) throw SystemError(name, errno);
  return false;
}

// The pid is that of the holder, for it is read while the lock is held and the process is known.
bool wait_for_lock(const UniqueFd& lock, const std::string& name) {
  constexpr std::chrono::seconds kPatience{40};  // more than a daemon gives its requests
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 5'000'000};
  bool told = false;
  for (const Deadline deadline = Clock::now() + kPatience; Clock::now() < deadline;) {
    const std::optional<pid_t> pid = told ? std::nullopt : find_holder(lock);
    UniqueFd process;
    if (pid) process = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
    if (take_lock(lock, name)) return true;
    if (process && find_holder(lock) == pid) {
      told = ::syscall(SYS_pidfd_send_signal, process.get(), kReplaceSignal, nullptr, 0) == 0;
    }
    ::nanosleep(&kPause, nullptr);
  }
  return false;
}

}  // namespace

StateDir::StateDir(const fs::path& path, bool replace)
    : path_(fs::absolute(path).lexically_normal()) {
  if (!path_.has_filename()) path_ = path_.parent_path();  // it ended in a slash
  make_directory(path_);
  const UniqueFd directory = open_directory(path_);
  // Never removed: a lock on a file that has lost its name protects nothing.
  const std::string name = (path_ / "lock").native();
  lock_ = UniqueFd(check_syscall(
      name, ::openat(directory.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)));
  if (!take_lock(lock_, name) && !(replace && wait_for_lock(lock_, name))) {
    refuse(path_, str("is in use by ", holder(lock_),
                      replace ? ", which does not go: see its log"
                              : ": stop that daemon, take its place with --replace, or choose "
                                "another with --state"));
  }
  check_syscall(name, ::ftruncate(lock_.get(), 0));
  try {
    write_all(lock_.get(), str(::getpid(), "\n"), name);
  } catch (const SystemError& error) {
    // On a full disk the lock holds as well; only the refusal of a second daemon knows less.
    if (error.error_number() != ENOSPC && error.error_number() != EDQUOT) throw;
  }
}

StateDir::~StateDir() {
  // Whoever looks later must not read a pid that is somebody else's by then. A crash leaves it, and
  // the next daemon overwrites it.
  if (lock_ && ::ftruncate(lock_.get(), 0) != 0) return;
}

}  // namespace caisson::daemon
