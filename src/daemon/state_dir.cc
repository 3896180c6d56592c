#include "daemon/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
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

// Nothing while the other daemon has the lock and has not written its pid yet. Reads and writes
// name their place in the file: who looked at it while waiting must not write behind what it has
// read.
std::optional<pid_t> find_holder(const UniqueFd& lock) {
  std::array<char, 64> text{};
  const auto size = check_syscall("lock", ::pread(lock.get(), text.data(), text.size(), 0));
  const auto number = parse_integer(trim({text.data(), static_cast<std::size_t>(size)}));
  if (!number || *number <= 0) return std::nullopt;
  return static_cast<pid_t>(*number);
}

// On a full disk the lock holds as well; others only do not learn who has it.
void write_holder(const UniqueFd& lock, const std::string& name) {
  const std::string text = str(::getpid(), "\n");
  check_syscall(name, ::ftruncate(lock.get(), 0));
  if (::pwrite(lock.get(), text.data(), text.size(), 0) >= 0) return;
  if (errno != ENOSPC && errno != EDQUOT) throw SystemError(name, errno);
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
// Every holder is told once: while we wait, another one that waited may come before us.
bool wait_for_lock(const UniqueFd& lock, const std::string& name) {
  constexpr std::chrono::seconds kPatience{40};  // more than a daemon gives its requests
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 5'000'000};
  std::optional<pid_t> told;
  for (const Deadline deadline = Clock::now() + kPatience; Clock::now() < deadline;) {
    const std::optional<pid_t> pid = find_holder(lock);
    UniqueFd process;
    if (pid && pid != told)
      process = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
    if (take_lock(lock, name)) return true;
    if (process && find_holder(lock) == pid &&
        ::syscall(SYS_pidfd_send_signal, process.get(), kReplaceSignal, nullptr, 0) == 0) {
      told = pid;
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
  write_holder(lock_, name);
}

StateDir::~StateDir() {
  // Whoever looks later must not read a pid that is somebody else's by then. A crash leaves it, and
  // the next daemon overwrites it.
  if (lock_ && ::ftruncate(lock_.get(), 0) != 0) return;
}

}  // namespace caisson::daemon
