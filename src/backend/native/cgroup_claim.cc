#include "backend/native/cgroup_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>

#include "backend/native/cgroup_kill.h"
#include "backend/native/cgroup_place.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

namespace caisson::backend::native {

namespace {

// Whoever sweeps holds a lock for a moment.
constexpr std::chrono::seconds kSweepersTime{10};

// Where this owner's directories are, or would be.
std::vector<std::filesystem::path> places(const CgroupHost& host, std::string_view owner) {
  std::vector<std::filesystem::path> found;
  for (const CgroupHierarchy& hierarchy : host.hierarchies) {
    const CgroupPlace place = choose_place(hierarchy);
    if (place.writable) found.push_back(place.directory / str(kOwnerPrefix, owner));
  }
  return found;
}

UniqueFd wait_for_group(const std::filesystem::path& path) {
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 5'000'000};
  for (const Deadline deadline = Clock::now() + kSweepersTime; Clock::now() < deadline;) {
    if (UniqueFd directory = make_locked_group(path)) return directory;
    ::nanosleep(&kPause, nullptr);
  }
  throw Error(ErrorCode::backend_unavailable,
              str("control group ", path.native(),
                  ", which boxes to be taken over live in, is held by another caisson: stop that "
                  "one first"));
}

}  // namespace

bool leads_to(const std::filesystem::path& path, int directory) {
  struct stat held {};
  struct stat found {};
  return ::fstat(directory, &held) == 0 && ::stat(path.c_str(), &found) == 0 &&
         held.st_ino == found.st_ino && held.st_dev == found.st_dev;
}

UniqueFd lock_group(const std::filesystem::path& path) {
  for (;;) {
    UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory && (errno == ENOENT || errno == EACCES)) return {};
    check_syscall(path.native(), directory.get());
    if (::flock(directory.get(), LOCK_EX | LOCK_NB) < 0) {
      if (errno == EWOULDBLOCK) return {};
      throw SystemError(path.native(), errno);
    }
    // Its last holder may have removed it meanwhile.
    if (leads_to(path, directory.get())) return directory;
  }
}

UniqueFd make_locked_group(const std::filesystem::path& path) {
  for (;;) {
    if (::mkdir(path.c_str(), 0700) < 0 && errno != EEXIST) throw SystemError(path.native(), errno);
    UniqueFd directory = lock_group(path);
    if (directory) {
      check_syscall(path.native(), ::fchmod(directory.get(), 0700));
      return directory;
    }
    if (::access(path.c_str(), F_OK) == 0) return {};
  }
}

CgroupClaim::~CgroupClaim() {
  for (const auto& [path, directory] : directories_) ::rmdir(path.c_str());
}

std::optional<CgroupClaim> CgroupClaim::take(const CgroupHost& host, std::string_view owner) {
  CgroupClaim claim;
  for (const std::filesystem::path& path : places(host, owner)) {
    UniqueFd directory;
    try {
      directory = make_locked_group(path);
    } catch (const SystemError&) {
      continue;  // nothing can be made here: the owner's report will say so
    }
    if (!directory || !remove_empty_below(directory.get())) return std::nullopt;
    claim.directories_.emplace(path, std::move(directory));
  }
  return claim;
}

CgroupClaim CgroupClaim::inherit(const CgroupHost& host, std::string_view owner,
                                 std::vector<UniqueFd> locks) {
  CgroupClaim claim;
  for (const std::filesystem::path& path : places(host, owner)) {
    const auto held = std::find_if(locks.begin(), locks.end(), [&](const UniqueFd& lock) {
      return lock && leads_to(path, lock.get());
    });
    try {
      claim.directories_[path] = held != locks.end() ? std::move(*held) : wait_for_group(path);
    } catch (const SystemError&) {
      claim.directories_.erase(path);  // as above
    }
  }
  return claim;
}

UniqueFd CgroupClaim::extract(const std::filesystem::path& path) {
  const auto found = directories_.find(path);
  if (found == directories_.end()) return {};
  UniqueFd directory = std::move(found->second);
  directories_.erase(found);
  return directory;
}

}  // namespace caisson::backend::native
