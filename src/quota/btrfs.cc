#include "quota/btrfs.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "quota/tree.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};  // takes one away
constexpr ino_t kSubvolumeInode = BTRFS_FIRST_FREE_OBJECTID;

bool is_subvolume(const fs::path& path) {
  struct stat status {};
  check_syscall(path.native(), ::lstat(path.c_str(), &status));
  return S_ISDIR(status.st_mode) && status.st_ino == kSubvolumeInode;
}

std::uint64_t subvolume_id(int directory, const fs::path& name) {
  btrfs_ioctl_ino_lookup_args arguments{};
  arguments.objectid = BTRFS_FIRST_FREE_OBJECTID;
  check_syscall(name.native(), ::ioctl(directory, BTRFS_IOC_INO_LOOKUP, &arguments));
  return arguments.treeid;
}

void name_in(btrfs_ioctl_vol_args& arguments, const fs::path& path) {
  const std::string name = path.filename();
  if (name.size() > BTRFS_PATH_NAME_MAX) throw SystemError(path.native(), ENAMETOOLONG);
  std::memcpy(arguments.name, name.data(), name.size());
}

void change_subvolume(unsigned long request, const fs::path& path) {
  const UniqueFd parent = open_file(path.parent_path(), kDirectory);
  btrfs_ioctl_vol_args arguments{};
  name_in(arguments, path);
  check_syscall(path.native(), ::ioctl(parent.get(), request, &arguments));
}

void set_limit(const fs::path& path, std::uint64_t bytes) {
  const UniqueFd directory = open_file(path, kDirectory);
  btrfs_ioctl_qgroup_limit_args arguments{};
  arguments.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER;
  arguments.lim.max_rfer = bytes;
  check_syscall(str("limit ", path.native()),
                ::ioctl(directory.get(), BTRFS_IOC_QGROUP_LIMIT, &arguments));
}

// The bytes that the subvolume of this number refers to, of 0 none in particular. -1 with errno
// when they cannot be known: ENOENT without quotas.
std::int64_t referred_bytes(int directory, std::uint64_t id) {
  btrfs_ioctl_search_args arguments{};
  btrfs_ioctl_search_key& key = arguments.key;
  key.tree_id = BTRFS_QUOTA_TREE_OBJECTID;
  key.min_type = key.max_type = BTRFS_QGROUP_INFO_KEY;
  key.min_offset = key.max_offset = id;
  key.max_transid = ~std::uint64_t{0};
  key.nr_items = 1;
  if (::ioctl(directory, BTRFS_IOC_TREE_SEARCH, &arguments) < 0) return -1;
  if (key.nr_items == 0) return 0;
  btrfs_qgroup_info_item item{};
  std::memcpy(&item, arguments.buf + sizeof(btrfs_ioctl_search_header), sizeof item);
  return static_cast<std::int64_t>(item.rfer);  // little endian, as we are
}

void remove_whatever(const fs::path& path) {
  if (::access(path.c_str(), F_OK) < 0) return;
  if (is_subvolume(path)) return change_subvolume(BTRFS_IOC_SNAP_DESTROY, path);
  remove_directory(path);
}

}  // namespace

void Btrfs::apply(const fs::path& directory, const Limit& limit) {
  check_limit(limit);
  const fs::path path = settle_directory(directory);
  std::optional<Record> record = ledger_.find(path);
  if (!record) return bring_in(path, limit);
  restore(*record);
  if (record->limit == limit) return;
  check_fits(path, {.bytes = usage(path).used.bytes}, limit);
  set_limit(path, limit.bytes);
  record->phase = Phase::live;
  record->limit = limit;
  ledger_.put(*record);
}

void Btrfs::bring_in(const fs::path& path, const Limit& limit) {
  Record record{.driver = std::string(name()), .limit = limit};
  record.directory = path;
  const UniqueFd old = open_file(path, kDirectory);
  check_fits(path, {.bytes = needed_by(old.get()).bytes}, limit);
  ledger_.put(record);
  if (!is_subvolume(path)) {
    const fs::path place = beside(record);
    remove_whatever(place);
    change_subvolume(BTRFS_IOC_SUBVOL_CREATE, place);
    set_limit(place, limit.bytes);
    const UniqueFd target = open_file(place, kDirectory);
    copy_tree(old.get(), target.get());
    copy_attributes(old.get(), target.get());
    sync_tree(target.get(), place);
    check_syscall(path.native(),
                  ::renameat2(AT_FDCWD, place.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE));
    remove_whatever(place);
  }
  set_limit(path, limit.bytes);
  record.phase = Phase::live;
  ledger_.put(record);
}

// What lies beside the directory is what it replaced, or what did not come to replace it.
void Btrfs::restore(const Record& record) {
  settle_directory(record.directory);
  remove_whatever(beside(record));
  if (!is_subvolume(record.directory)) return bring_in(record.directory, record.limit);
  set_limit(record.directory, record.limit.bytes);
}

Usage Btrfs::usage(const fs::path& directory) const {
  const Record record = ledger_.get(resolve_directory(directory));
  const UniqueFd fd = open_file(record.directory, kDirectory);
  sync_tree(fd.get(), record.directory);  // numbers are brought up to date by a commit
  const std::int64_t bytes = referred_bytes(fd.get(), subvolume_id(fd.get(), record.directory));
  return {.used = {.bytes =
                       static_cast<std::uint64_t>(check_syscall(record.directory.native(), bytes))},
          .limit = record.limit};
}

void Btrfs::release(const fs::path& directory, Data data) {
  const Record record = ledger_.get(resolve_directory(directory));
  restore(record);
  if (data == Data::remove) {
    change_subvolume(BTRFS_IOC_SNAP_DESTROY, record.directory);
  } else {
    set_limit(record.directory, kNoLimit);
  }
  ledger_.remove(record.directory);
}

Recovery Btrfs::recover() {
  return ledger_.restore_each([this](const Record& record, std::vector<std::string>&) {
    restore(record);
    return true;
  });
}

std::string btrfs_problem(const fs::path& directory) {
  const UniqueFd fd = open_file(directory, O_RDONLY | O_DIRECTORY);
  if (referred_bytes(fd.get(), 0) >= 0) return {};
  if (errno == ENOENT) return "its quotas are not enabled";
  return str("its quotas cannot be read: ", error_text(errno));
}

}  // namespace caisson::quota
