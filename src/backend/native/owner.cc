#include "backend/native/owner.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

std::filesystem::path lock_path(const std::filesystem::path& directory, unsigned number) {
  return directory / str("owner-", number, ".lock");
}

// Whether the path still leads to the locked file: its last holder may have removed it.
bool still_there(int fd, const std::filesystem::path& path) {
  struct stat held {};
  struct stat found {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &found) == 0 &&
         held.st_ino == found.st_ino && held.st_dev == found.st_dev;
}

// Who takes a number marks its file, and removes it when it gives the number back.
bool was_owned(const UniqueFd& lock) {
  struct stat info {};
  return ::fstat(lock.get(), &info) == 0 && info.st_size > 0;
}

}  // namespace

std::filesystem::path runtime_directory() {
  if (::geteuid() == 0) return "/run/caisson";
  const char* user_directory = ::getenv("XDG_RUNTIME_DIR");
  if (user_directory != nullptr && *user_directory == '/') {
    return std::filesystem::path(user_directory) / "caisson";
  }
  return str("/tmp/caisson-", ::geteuid());
}

Owner::Owner(std::filesystem::path directory, Left left, const Claim& claim)
    : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) throw SystemError(directory_.native(), error.value());
  // Another user could have made the directory first, where it is in a public place.
  struct stat info {};
  check_syscall(directory_.native(), ::stat(directory_.c_str(), &info));
  if (info.st_uid != ::geteuid()) {
    throw Error(ErrorCode::backend_unavailable,
                str(directory_.native(), " belongs to uid ", info.st_uid,
                    ": remove it, or set XDG_RUNTIME_DIR to a directory of your own"));
  }
  // A group may pass through to the daemon's socket; more than that nobody gets.
  if ((info.st_mode & 0067) != 0) {
    check_syscall(directory_.native(), ::chmod(directory_.c_str(), 0700));
  }
  if (left.lock && inherit(std::move(left))) return;
  for (number_ = 0; number_ < kMaxOwners; ++number_) {
    lock_ = take(number_);
    if (!lock_) continue;
    if (!claim || claim(number_)) {
      follows_dead_ = was_owned(lock_);
      [[maybe_unused]] const ssize_t marked = ::pwrite(lock_.get(), "+", 1, 0);
      return;
    }
    if (!was_owned(lock_)) ::unlink(lock_path(directory_, number_).c_str());
  }
  throw Error(ErrorCode::capacity_reached,
              str("all ", kMaxOwners, " owner numbers in ", directory_.native(), " are taken"));
}

bool Owner::inherit(Left left) {
  for (number_ = 0; number_ < kMaxOwners; ++number_) {
    if (!still_there(left.lock.get(), lock_path(directory_, number_))) continue;
    lock_ = std::move(left.lock);
    return true;
  }
  if (!left.number) return false;
  number_ = *left.number;
  lock_ = take(number_);
  if (!lock_) lock_ = std::move(left.lock);  // what else carries the number keeps it apart
  return true;
}

Owner::~Owner() {
  const std::filesystem::path path = lock_path(directory_, number_);
  if (!abandoned_ && still_there(lock_.get(), path)) ::unlink(path.c_str());
}

// The held lock, or nothing when another process holds it.
UniqueFd Owner::take(unsigned number) const {
  const std::filesystem::path path = lock_path(directory_, number);
  for (;;) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT, 0600));
    check_syscall(path.native(), fd.get());
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) < 0) {
      if (errno == EWOULDBLOCK) return {};
      throw SystemError(path.native(), errno);
    }
    if (still_there(fd.get(), path)) return fd;
  }
}

bool Owner::is_live(unsigned number) const {
  if (number == number_) return true;
  const std::filesystem::path path = lock_path(directory_, number);
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) < 0;
}

void Owner::with_dead_owners(const std::function<bool(unsigned number)>& clean,
                             const std::set<unsigned>& suspected) const {
  std::set<unsigned> candidates = suspected;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    std::string_view name = entry.path().native();
    name.remove_prefix(name.rfind('/') + 1);
    if (!name.starts_with("owner-") || !name.ends_with(".lock")) continue;
    const auto parsed = parse_integer(name.substr(6, name.size() - 11));
    if (parsed && *parsed >= 0 && *parsed < kMaxOwners) {
      candidates.insert(static_cast<unsigned>(*parsed));
    }
  }
  candidates.erase(number_);
  for (const unsigned number : candidates) {
    const UniqueFd lock = take(number);
    if (!lock) continue;
    if (clean(number) || !was_owned(lock)) ::unlink(lock_path(directory_, number).c_str());
  }
}

}  // namespace caisson::backend::native
