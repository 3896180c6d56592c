#include "quota/tmpfs_volumes.h"

#include <linux/magic.h>
#include <sys/statfs.h>

#include "base/error.h"
#include "base/str.h"
#include "quota/mount.h"

namespace caisson::quota {

namespace {

std::vector<MountOption> options(const Limit& limit) {
  // The root has an inode, too.
  return {{"size", std::to_string(limit.bytes)}, {"nr_inodes", std::to_string(limit.inodes + 1)}};
}

}  // namespace

Volume TmpfsVolumes::make(const Record& record) {
  return {.mount = new_mount("tmpfs", options(record.limit)), .inside = ""};
}

void TmpfsVolumes::adopt(const Record&) {}

void TmpfsVolumes::remove_draft(const Record&) {}

bool TmpfsVolumes::exists(const Record& record) const {
  return is_mounted(record);
}

Volume TmpfsVolumes::open(const Record& record) {
  return {.mount = clone_mount(record.directory), .inside = ""};
}

bool TmpfsVolumes::is_mounted(const Record& record) const {
  if (!is_mount_point(record.directory)) return false;
  struct statfs status {};
  check_syscall(record.directory.native(), ::statfs(record.directory.c_str(), &status));
  return status.f_type == TMPFS_MAGIC;
}

bool TmpfsVolumes::resize(const Record& record, const Limit& limit) {
  reconfigure(record.directory, options(limit));
  return true;
}

// A box that has it goes on with it; that cannot be seen from here.
Volume TmpfsVolumes::take_off(const Record& record) {
  return open(record);
}

void TmpfsVolumes::remove(const Record&) {}

void TmpfsVolumes::sweep(const std::set<std::string>&) {}

std::filesystem::path TmpfsVolumes::staging(const Record& record) const {
  return record.directory;  // never used: the root of a mount needs none
}

}  // namespace caisson::quota
