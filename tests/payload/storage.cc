// Row I5: writable places are nosuid and nodev, and bounded in bytes and in inodes.
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr off_t kMiB = 1 << 20;
constexpr off_t kStep = 4 * kMiB;
constexpr off_t kMaxBytes = 1024 * kMiB;  // more than any box may have in a place without a quota
constexpr int kMaxFiles = 100'000;

bool is_space_limit(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT;
}

// One place for each file system: two directories of one share its limits.
std::vector<std::string> writable_file_systems() {
  std::set<dev_t> seen;
  std::vector<std::string> places;
  for (const std::string& place : writable_places()) {
    struct stat status {};
    if (::stat(place.c_str(), &status) == 0 && seen.insert(status.st_dev).second) {
      places.push_back(place);
    }
  }
  return places;
}

Outcome tmp_nosuid_nodev(Argument) {
  std::string seen;
  for (const std::string& place : writable_places()) {
    struct statvfs status {};
    if (::statvfs(place.c_str(), &status) < 0) return broken(place + " " + errno_name(errno));
    if ((status.f_flag & ST_NOSUID) == 0) return allowed(place + " honours setuid bits");
    if ((status.f_flag & ST_NODEV) == 0) return allowed(place + " honours device nodes");
    seen += place + " ";
  }
  return seen.empty() ? broken("no writable place") : denied(seen + "are nosuid,nodev");
}

bool has_special_bits(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0;
}

// A set-id file in a mounted workspace would be one on the host too.
Outcome chmod_suid(Argument) {
  for (const std::string& place : writable_places()) {
    const TempDir directory(place);
    if (!directory.valid()) continue;
    const std::string path = directory.file("program");
    const UniqueFd fd(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0700));
    if (!fd) return broken(path + " " + errno_name(errno));
    for (const mode_t mode : {04700u, 02710u}) {
      ::chmod(path.c_str(), mode);
      ::fchmod(fd.get(), mode);
      ::syscall(SYS_fchmodat, AT_FDCWD, path.c_str(), mode);
      ::syscall(452 /* fchmodat2 */, AT_FDCWD, path.c_str(), mode, 0);
      if (has_special_bits(path)) return allowed("a set-id file in " + place);
    }
  }
  return denied("bits refused or dropped");
}

Outcome create_suid(Argument) {
  const TempDir directory;
  if (!directory.valid()) return broken("no temporary directory: " + errno_name(errno));
  constexpr int kFlags = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC;
  const UniqueFd opened(::open(directory.file("open").c_str(), kFlags, 04700));
  open_how how{};
  how.flags = kFlags;
  how.mode = 04700;
  const UniqueFd opened2(static_cast<int>(
      ::syscall(SYS_openat2, AT_FDCWD, directory.file("openat2").c_str(), &how, sizeof how)));
  ::mknod(directory.file("mknod").c_str(), S_IFREG | 04700, 0);
  for (const char* name : {"open", "openat2", "mknod"}) {
    if (has_special_bits(directory.file(name))) return allowed(std::string(name) + " sets the bit");
  }
  return denied("bits refused or dropped");
}

// A program with capabilities of its own, as root would make it: cap_net_raw, permitted and
// effective.
Outcome file_capability(Argument) {
  const TempDir directory;
  const std::string path = directory.file("program");
  const UniqueFd fd(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0700));
  if (!fd) return broken(path + " " + errno_name(errno));
  const unsigned value[5] = {VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, 1u << CAP_NET_RAW};
  return judge(::fsetxattr(fd.get(), "security.capability", value, sizeof value, 0), {EOPNOTSUPP});
}

// The next bytes of the file. fallocate takes the space without the work; where there is no
// fallocate the bytes are written.
bool extend(int fd, off_t offset, const std::string& block) {
  if (::fallocate(fd, 0, offset, kStep) == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM) return false;
  return ::pwrite(fd, block.data(), block.size(), offset) == static_cast<ssize_t>(block.size());
}

// Takes space until there is no more; the answer is the errno, or 0 at kMaxBytes.
int fill_with_bytes(const TempDir& directory, off_t& taken) {
  const std::string block(static_cast<std::size_t>(kStep), 'x');
  const UniqueFd fd(::open(directory.file("bytes").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  if (!fd) return errno;
  for (taken = 0; taken < kMaxBytes; taken += kStep) {
    errno = ENOSPC;  // a short write leaves errno alone, and says the same
    if (!extend(fd.get(), taken, block)) return errno;
  }
  return 0;
}

int fill_with_files(const TempDir& directory, int& made) {
  for (made = 0; made < kMaxFiles; ++made) {
    const std::string path = directory.file(std::to_string(made));
    const UniqueFd fd(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    if (!fd) return errno;
  }
  return 0;
}

bool is_usable(const std::string& place) {
  const TempDir directory(place);
  if (!directory.valid()) return false;
  const UniqueFd fd(::open(directory.file("again").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const std::string block(1 << 16, 'y');
  return fd && ::write(fd.get(), block.data(), block.size()) == static_cast<ssize_t>(block.size());
}

// Fills each place in turn; `fill` answers the errno that ended it and what it took.
template <typename Amount>
Outcome judge_fill(int (*fill)(const TempDir&, Amount&), Amount unit, const std::string& noun) {
  std::string seen;
  for (const std::string& place : writable_file_systems()) {
    Amount taken = 0;
    int error_number = 0;
    {
      const TempDir directory(place);
      if (!directory.valid()) continue;
      error_number = fill(directory, taken);
    }
    const std::string amount = place + " " + std::to_string(taken / unit) + " " + noun;
    if (error_number == 0) return allowed(amount);
    if (!is_space_limit(error_number)) return broken(amount + " " + errno_name(error_number));
    if (!is_usable(place)) return broken(place + " is unusable after deletion");
    seen += errno_name(error_number) + " " + amount + "; ";
  }
  return seen.empty() ? broken("no writable place") : denied(seen);
}

Outcome res_disk(Argument) {
  return judge_fill<off_t>(fill_with_bytes, kMiB, "MiB");
}
Outcome res_inodes(Argument) {
  return judge_fill<int>(fill_with_files, 1, "files");
}

constexpr Check kChecks[] = {
    {"I05", "tmp_nosuid_nodev", tmp_nosuid_nodev},
    {"I05", "chmod_suid", chmod_suid},
    {"I05", "create_suid", create_suid},
    {"I05", "file_capability", file_capability},
    {"I05", "res_disk", res_disk},
    {"I05", "res_inodes", res_inodes},
};

}  // namespace

std::span<const Check> storage_checks() {
  return kChecks;
}

}  // namespace caisson::payload
