#include "quota/project.h"

#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/str.h"
#include "quota/tree.h"
#include "quota/walk.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
constexpr std::uint32_t kFirstProject = 0x40000000;
constexpr unsigned kQuotaBlock = 1024;  // the unit of Q_SETQUOTA
constexpr unsigned kBasicBlock = 512;   // the unit of Q_XSETQLIM

// quotactl(2) about the projects of the file system of a directory; kernels before 5.14 want its
// device by path.
long quota_call(int directory, unsigned command, std::uint32_t project, void* argument) {
  const unsigned request = static_cast<unsigned>(QCMD(command, PRJQUOTA));
  const long result = ::syscall(SYS_quotactl_fd, directory, request, project, argument);
  if (result == 0 || errno != ENOSYS) return result;
  struct stat status {};
  if (::fstat(directory, &status) < 0) return -1;
  const std::string device = str("/dev/block/", major(status.st_dev), ":", minor(status.st_dev));
  const long by_path = ::syscall(SYS_quotactl, request, device.c_str(), project, argument);
  if (by_path < 0 && errno == ENOENT) errno = ENOSYS;  // no such path: the first answer holds
  return by_path;
}

bool is_xfs(int directory, const fs::path& name) {
  struct statfs status {};
  check_syscall(name.native(), ::fstatfs(directory, &status));
  return status.f_type == XFS_SUPER_MAGIC;
}

// Zero is no limit.
void set_limit(int directory, std::uint32_t project, const Limit& limit, const fs::path& name) {
  const std::string what = str("limit project ", project, " of ", name.native());
  if (is_xfs(directory, name)) {
    fs_disk_quota quota{};
    quota.d_version = FS_DQUOT_VERSION;
    quota.d_flags = FS_PROJ_QUOTA;
    quota.d_fieldmask = FS_DQ_BSOFT | FS_DQ_BHARD | FS_DQ_ISOFT | FS_DQ_IHARD;
    quota.d_id = project;
    quota.d_blk_hardlimit = limit.bytes / kBasicBlock;
    quota.d_ino_hardlimit = limit.inodes;
    check_syscall(what, quota_call(directory, Q_XSETQLIM, project, &quota));
    return;
  }
  if_dqblk quota{};
  quota.dqb_bhardlimit = limit.bytes / kQuotaBlock;
  quota.dqb_ihardlimit = limit.inodes;
  quota.dqb_valid = QIF_LIMITS;
  check_syscall(what, quota_call(directory, Q_SETQUOTA, project, &quota));
}

// The directory itself counts as one inode of its project, and not as one of the caller's.
Limit with_directory(Limit limit) {
  ++limit.inodes;
  return limit;
}

if_dqblk quota_of(int directory, std::uint32_t project, const fs::path& name) {
  if_dqblk quota{};
  if (quota_call(directory, Q_GETQUOTA, project, &quota) < 0 && errno != ENOENT) {
    throw SystemError(str("project ", project, " of ", name.native()), errno);
  }
  return quota;
}

void set_project(int fd, std::uint32_t project, bool inherit, const std::string& name) {
  fsxattr attributes{};
  check_syscall(name, ::ioctl(fd, FS_IOC_FSGETXATTR, &attributes));
  attributes.fsx_projid = project;
  attributes.fsx_xflags &= ~static_cast<unsigned>(FS_XFLAG_PROJINHERIT);
  if (inherit) attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  check_syscall(name, ::ioctl(fd, FS_IOC_FSSETXATTR, &attributes));
}

// The directory first, so that what is made meanwhile has the number from its parent.
void set_tree_project(int directory, std::uint32_t project, const fs::path& path) {
  const bool inherit = project != 0;
  set_project(directory, project, inherit, path);
  walk(directory, [&](int parent, const std::string& name, const struct stat& status) {
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) return;
    const UniqueFd fd = open_file_at(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    set_project(fd.get(), project, inherit && S_ISDIR(status.st_mode), name);
  });
}

std::uint32_t project_of(int directory, const fs::path& path) {
  fsxattr attributes{};
  check_syscall(path.native(), ::ioctl(directory, FS_IOC_FSGETXATTR, &attributes));
  return attributes.fsx_projid;
}

}  // namespace

std::uint32_t first_project(const fs::path& directory) {
  const std::string digits = sha256_hex(directory.native()).substr(0, 8);
  return kFirstProject | (static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16)) >> 2);
}

void Project::apply(const fs::path& directory, const Limit& limit) {
  check_limit(limit);
  const fs::path path = settle_directory(directory);
  std::optional<Record> record = ledger_.find(path);
  const UniqueFd fd = open_file(path, kDirectory);
  if (!record) {
    check_fits(path, needed_by(fd.get()), limit);
    record = Record{.driver = std::string(name()), .limit = limit};
    record->directory = path;
    begin(*record, fd.get());
  }
  restore(*record);
  if (record->limit == limit) return;
  check_fits(path, usage(path).used, limit);
  set_limit(fd.get(), record->project, with_directory(limit), path);
  record->limit = limit;
  ledger_.put(*record);
}

// Picks a number that nothing on the file system has, and that no record of ours names.
void Project::begin(Record& record, int directory) {
  const std::lock_guard lock(numbers_);
  std::set<std::uint32_t> taken;
  std::vector<std::string> ignored;
  for (const Record& other : ledger_.list(ignored)) taken.insert(other.project);
  for (record.project = first_project(record.directory);; ++record.project) {
    if (taken.contains(record.project)) continue;
    const if_dqblk quota = quota_of(directory, record.project, record.directory);
    if (quota.dqb_bhardlimit == 0 && quota.dqb_ihardlimit == 0 && quota.dqb_curinodes == 0) break;
  }
  ledger_.put(record);
}

void Project::restore(Record& record) {
  settle_directory(record.directory);
  const UniqueFd fd = open_file(record.directory, kDirectory);
  set_limit(fd.get(), record.project, with_directory(record.limit), record.directory);
  if (record.phase == Phase::live && project_of(fd.get(), record.directory) == record.project) {
    return;
  }
  set_tree_project(fd.get(), record.project, record.directory);
  record.phase = Phase::live;
  ledger_.put(record);
}

Usage Project::usage(const fs::path& directory) const {
  const Record record = ledger_.get(resolve_directory(directory));
  const UniqueFd fd = open_file(record.directory, kDirectory);
  const if_dqblk quota = quota_of(fd.get(), record.project, record.directory);
  const std::uint64_t inodes = quota.dqb_curinodes;
  return {.used = {.bytes = quota.dqb_curspace, .inodes = inodes == 0 ? 0 : inodes - 1},
          .limit = record.limit};
}

void Project::release(const fs::path& directory, Data data) {
  const Record record = ledger_.get(resolve_directory(directory));
  const UniqueFd fd = open_file(record.directory, kDirectory);
  if (data == Data::keep) {
    set_tree_project(fd.get(), 0, record.directory);
  } else {
    remove_directory(record.directory);
  }
  set_limit(fd.get(), record.project, {}, record.directory);  // also of a directory that is gone
  ledger_.remove(record.directory);
}

Recovery Project::recover() {
  return ledger_.restore_each([this](Record& record, std::vector<std::string>&) {
    restore(record);
    return true;
  });
}

std::string project_problem(const fs::path& directory) {
  const UniqueFd fd = open_file(directory, O_RDONLY | O_DIRECTORY);
  fs_quota_stat state{};
  state.qs_version = FS_QSTAT_VERSION;
  if (quota_call(fd.get(), Q_XGETQSTAT, 0, &state) < 0) {
    return errno == ENOSYS || errno == ESRCH || errno == EINVAL
               ? std::string("it is mounted without project quotas, or the kernel has none for it")
               : str("its quotas cannot be read: ", error_text(errno));
  }
  if ((state.qs_flags & FS_QUOTA_PDQ_ENFD) == 0) return "its project quotas are not enforced";
  return {};
}

}  // namespace caisson::quota
