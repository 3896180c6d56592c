#include "quota/loop_volumes.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "quota/ext4_image.h"
#include "quota/loop_device.h"
#include "quota/mount.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;

constexpr char kData[] = "data";
constexpr char kSpare[] = "spare";  // takes what an image has too much of
constexpr char kSpareBytes[] = "spare/bytes";
constexpr char kCapacity[] = "spare/capacity";
constexpr char kImageSuffix[] = ".img";
constexpr char kDraftSuffix[] = ".new";
constexpr char kStagingSuffix[] = ".mnt";

struct statvfs room_of(int mount, const fs::path& image) {
  struct statvfs room {};
  const UniqueFd root = open_file_at(mount, ".", O_RDONLY | O_DIRECTORY);
  check_syscall(image.native(), ::fstatvfs(root.get(), &room));
  return room;
}

// What is deleted inside is given back to the host. Tables of inodes are zero in a new file and
// need not be written.
UniqueFd mount_device(const LoopDevice& device) {
  return new_mount(
      "ext4",
      {{"source", device.path}, {"errors", "remount-ro"}, {"noinit_itable", ""}, {"discard", ""}});
}

// mkfs rounds inodes up to whole blocks of every group.
void take_spare_inodes(int mount, const Limit& limit, const fs::path& image) {
  const UniqueFd spare = open_file_at(mount, kSpare, O_RDONLY | O_DIRECTORY);
  const std::uint64_t free = room_of(mount, image).f_ffree;
  if (free < limit.inodes) {
    throw Error(ErrorCode::internal_error, str(image.native(), ": made with too few inodes"));
  }
  for (std::uint64_t number = limit.inodes; number < free; ++number) {
    open_file_at(spare.get(), std::to_string(number), O_WRONLY | O_CREAT | O_EXCL, 0);
  }
}

// An image carries its room with it, as the size of an empty file: no record can be of another one.
std::uint64_t capacity_of(int mount, const fs::path& image) {
  struct stat status {};
  check_syscall(image.native(), ::fstatat(mount, kCapacity, &status, AT_SYMLINK_NOFOLLOW));
  return static_cast<std::uint64_t>(status.st_size);
}

// The limit is for content. Indirection and directories take a little more, so that a file of
// exactly the limit has room, also when it is written a megabyte at a time.
std::uint64_t room_for(const Limit& limit) {
  return limit.bytes + limit.bytes / 256;
}

void take_spare_bytes(int mount, const Limit& limit, const fs::path& image) {
  const std::uint64_t capacity = capacity_of(mount, image);
  const UniqueFd file = open_file_at(mount, kSpareBytes, O_WRONLY);
  struct stat before {};
  check_syscall(image.native(), ::fstat(file.get(), &before));
  const std::uint64_t spare = capacity - std::min(room_for(limit), capacity);
  const off_t bytes = static_cast<off_t>(spare / kBlockBytes * kBlockBytes);
  check_syscall(image.native(), ::ftruncate(file.get(), bytes));
  if (bytes == 0 || ::fallocate(file.get(), 0, 0, bytes) == 0) return;
  const int error_number = errno;
  check_syscall(image.native(), ::ftruncate(file.get(), before.st_size));
  if (error_number != ENOSPC) throw SystemError(image.native(), error_number);
  throw Error(ErrorCode::storage_full,
              str(image.native(), " holds more than a limit of ", limit.bytes, " bytes"));
}

// Everything of a new file system that is not data.
void furnish(int mount, const Limit& limit, const fs::path& image) {
  check_syscall(image.native(), ::mkdirat(mount, kData, 0755));
  check_syscall(image.native(), ::mkdirat(mount, kSpare, 0700));
  for (const char* name : {kSpareBytes, kCapacity}) {
    open_file_at(mount, name, O_WRONLY | O_CREAT | O_EXCL, 0);
  }
  take_spare_inodes(mount, limit, image);
  const struct statvfs room = room_of(mount, image);
  const std::uint64_t capacity = room.f_bavail * room.f_frsize;
  if (capacity < room_for(limit)) {
    throw Error(ErrorCode::internal_error, str(image.native(), ": made with too few blocks"));
  }
  const UniqueFd file = open_file_at(mount, kCapacity, O_WRONLY);
  check_syscall(image.native(), ::ftruncate(file.get(), static_cast<off_t>(capacity)));
  take_spare_bytes(mount, limit, image);
}

void sync_directory(const fs::path& path) {
  const UniqueFd directory = open_file(path, O_RDONLY | O_DIRECTORY);
  check_syscall(path.native(), ::fsync(directory.get()));
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) < 0 && errno != ENOENT) throw SystemError(path.native(), errno);
}

}  // namespace

fs::path LoopVolumes::image(const Record& record) const {
  return root_ / str(record_id(record.directory), kImageSuffix);
}

// A mkfs of a daemon that was killed may still be at work: it does not meet this one's file.
fs::path LoopVolumes::draft(const Record& record) const {
  return root_ / str(record_id(record.directory), ".", ::getpid(), kDraftSuffix);
}

fs::path LoopVolumes::staging(const Record& record) const {
  return root_ / str(record_id(record.directory), kStagingSuffix);
}

Volume LoopVolumes::make(const Record& record) {
  const fs::path file = draft(record);
  remove_file(file);
  try {
    make_ext4_image(file, {.bytes = 2 * record.limit.bytes, .inodes = record.limit.inodes});
    const LoopDevice device = make_loop_device(file);
    Volume volume{.mount = mount_device(device), .inside = kData};
    furnish(volume.mount.get(), record.limit, file);
    return volume;
  } catch (...) {
    ::unlink(file.c_str());
    throw;
  }
}

void LoopVolumes::adopt(const Record& record) {
  const fs::path file = draft(record);
  const UniqueFd written = open_file(file, O_RDONLY);
  check_syscall(file.native(), ::fsync(written.get()));
  check_syscall(file.native(), ::rename(file.c_str(), image(record).c_str()));
  sync_directory(root_);
}

bool LoopVolumes::exists(const Record& record) const {
  return ::access(image(record).c_str(), F_OK) == 0;
}

Volume LoopVolumes::open(const Record& record) {
  // A box, or another mount namespace, may have the file system mounted: then it is this one.
  std::optional<LoopDevice> device = find_loop_device(image(record));
  if (!device) {
    check_ext4_image(image(record));
    device = make_loop_device(image(record));
  }
  Volume volume{.mount = mount_device(*device), .inside = kData};
  take_spare_bytes(volume.mount.get(), record.limit, image(record));
  return volume;
}

bool LoopVolumes::is_mounted(const Record& record) const {
  if (!is_mount_point(record.directory)) return false;
  struct stat status {};
  check_syscall(record.directory.native(), ::stat(record.directory.c_str(), &status));
  return is_loop_device_of(status.st_dev, image(record));
}

bool LoopVolumes::resize(const Record& record, const Limit& limit) {
  if (limit.inodes != record.limit.inodes) return false;
  const std::optional<LoopDevice> device = find_loop_device(image(record));
  if (!device) return false;
  const UniqueFd mount = mount_device(*device);  // the same file system, at its root
  if (room_for(limit) > capacity_of(mount.get(), image(record))) return false;
  take_spare_bytes(mount.get(), limit, image(record));
  return true;
}

Volume LoopVolumes::take_off(const Record& record) {
  const std::optional<LoopDevice> device = find_loop_device(image(record));
  if (is_mounted(record)) unmount(record.directory);
  if (device && quota::is_mounted(*device)) {
    const UniqueFd mount = mount_device(*device);
    attach(mount.get(), kData, record.directory, staging(record));
    throw Error(ErrorCode::busy, str(record.directory.native(),
                                     " is in use by a box; end its session, then try again"));
  }
  return open(record);
}

void LoopVolumes::remove_draft(const Record& record) {
  remove_file(draft(record));
}

void LoopVolumes::remove(const Record& record) {
  remove_file(image(record));
}

void LoopVolumes::sweep(const std::set<std::string>& known_ids) {
  std::error_code absent;  // nothing was ever made
  for (const fs::directory_entry& entry : fs::directory_iterator(root_, absent)) {
    const fs::path& path = entry.path();
    if (path.extension() == kStagingSuffix) {
      ::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);  // or it was not mounted
      check_syscall(path.native(), ::rmdir(path.c_str()));
    } else if (path.extension() == kDraftSuffix ||
               (path.extension() == kImageSuffix && !known_ids.contains(path.stem()))) {
      remove_file(path);
    }
  }
}

}  // namespace caisson::quota
