#include "quota/mounted.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "quota/mount.h"
#include "quota/tree.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

UniqueFd data_of(const Volume& volume) {
  return open_file_at(volume.mount.get(), volume.inside.empty() ? "." : volume.inside, kDirectory);
}

// Copies with the directory's own attributes, to the disk.
void copy_all(int from, int to, const fs::path& name) {
  copy_tree(from, to);
  copy_attributes(from, to);
  sync_tree(to, name);
}

}  // namespace

Mounted::Mounted(const fs::path& root, std::unique_ptr<Volumes> volumes)
    : volumes_(std::move(volumes)), ledger_(root, std::string(volumes_->name())) {}

void Mounted::mount(const Volume& volume, const Record& record) {
  attach(volume.mount.get(), volume.inside, record.directory, volumes_->staging(record));
}

void Mounted::apply(const fs::path& directory, const Limit& limit) {
  check_limit(limit);
  const fs::path path = settle_directory(directory);
  std::optional<Record> record = ledger_.find(path);
  if (!record) return bring_in(path, limit);
  std::vector<std::string> problems;
  restore(*record, problems);
  record = ledger_.find(path);
  if (!record) return bring_in(path, limit);  // it was on its way out
  if (record->limit == limit) return;
  check_fits(path, usage(path).used, limit);
  if (!volumes_->resize(*record, limit)) return rebuild(*record, limit);
  record->limit = limit;
  ledger_.put(*record);
}

void Mounted::bring_in(const fs::path& path, const Limit& limit) {
  if (is_mount_point(path)) {
    throw Error(ErrorCode::validation_error,
                str(path.native(),
                    " is a mount point of something else; a limit needs a "
                    "directory on which nothing is mounted"));
  }
  const UniqueFd old = open_file(path, kDirectory);
  check_fits(path, needed_by(old.get()), limit);
  ledger_.make_root();
  Record record{.driver = std::string(name()), .phase = Phase::emptying, .limit = limit};
  record.directory = path;
  const Volume volume = volumes_->make(record);
  try {
    copy_all(old.get(), data_of(volume).get(), path);
    volumes_->adopt(record);
    ledger_.put(record);
  } catch (...) {
    volumes_->remove_draft(record);
    volumes_->remove(record);
    throw;
  }
  mount(volume, record);
  finish_emptying(record);
}

void Mounted::finish_emptying(Record& record) {
  const UniqueFd below = open_uncovered(record.directory);
  empty_tree(below.get());
  record.phase = Phase::live;
  ledger_.put(record);
}

Usage Mounted::usage(const fs::path& directory) const {
  const Record record = ledger_.get(resolve_directory(directory));
  if (!volumes_->is_mounted(record)) {
    throw Error(ErrorCode::system_error,
                str(record.directory.native(),
                    ": its limit is not in force, because nothing is mounted; apply it again"));
  }
  struct statvfs room {};
  check_syscall(record.directory.native(), ::statvfs(record.directory.c_str(), &room));
  const std::uint64_t free = room.f_bavail * room.f_frsize;
  return {.used = {.bytes = record.limit.bytes - std::min(free, record.limit.bytes),
                   .inodes = record.limit.inodes -
                             std::min<std::uint64_t>(room.f_ffree, record.limit.inodes)},
          .limit = record.limit};
}

// Only a new volume can have this limit: nobody may write to the old one meanwhile.
void Mounted::rebuild(const Record& record, const Limit& limit) {
  const Volume old = volumes_->take_off(record);
  Record next = record;
  next.limit = limit;
  Volume volume;
  try {
    volume = volumes_->make(next);
    copy_all(data_of(old).get(), data_of(volume).get(), record.directory);
    volumes_->adopt(next);
  } catch (...) {
    volumes_->remove_draft(next);
    mount(old, record);
    throw;
  }
  mount(volume, next);
  ledger_.put(next);
}

void Mounted::release(const fs::path& directory, Data data) {
  Record record = ledger_.get(resolve_directory(directory));
  if (record.phase == Phase::returning) {
    finish_returning(record);
    if (data == Data::remove) remove_directory(record.directory);
    return;
  }
  std::vector<std::string> problems;
  restore(record, problems);
  if (data == Data::keep) return give_back(record);
  volumes_->take_off(record);
  unmount_if_mounted(record);
  ledger_.remove(record.directory);  // from here on the volume belongs to nothing
  volumes_->remove(record);
  check_syscall(record.directory.native(), ::rmdir(record.directory.c_str()));
}

void Mounted::give_back(Record& record) {
  const Volume volume = volumes_->take_off(record);
  const fs::path place = beside(record);
  try {
    remove_directory(place);
    check_syscall(place.native(), ::mkdir(place.c_str(), 0700));
    const UniqueFd target = open_file(place, kDirectory);
    copy_all(data_of(volume).get(), target.get(), place);
    record.phase = Phase::returning;
    ledger_.put(record);
    unmount_if_mounted(record);
  } catch (...) {
    record.phase = Phase::live;
    ledger_.put(record);
    if (!volumes_->is_mounted(record)) mount(volume, record);
    remove_directory(place);
    throw;
  }
  finish_returning(record);
}

void Mounted::unmount_if_mounted(const Record& record) {
  if (volumes_->is_mounted(record)) unmount(record.directory);
}

void Mounted::finish_returning(const Record& record) {
  unmount_if_mounted(record);
  const fs::path place = beside(record);
  if (::rename(place.c_str(), record.directory.c_str()) < 0 && errno != ENOENT) {
    throw SystemError(str("put ", place.native(), " in the place of ", record.directory.native()),
                      errno);
  }
  volumes_->remove(record);
  ledger_.remove(record.directory);
}

// Whatever was interrupted: afterwards the directory is limited as the record says, or has no
// record any more.
void Mounted::restore(Record& record, std::vector<std::string>& problems) {
  if (record.phase == Phase::returning) return finish_returning(record);
  settle_directory(record.directory);
  remove_directory(beside(record));
  if (volumes_->is_mounted(record)) {
    volumes_->resize(record, record.limit);  // an interrupted change
  } else if (is_mount_point(record.directory)) {
    throw Error(ErrorCode::validation_error,
                str(record.directory.native(), ": something else is mounted on it; unmount it"));
  } else if (volumes_->exists(record)) {
    mount(volumes_->open(record), record);
  } else {
    // Either the copy never came to be, or the volume is lost.
    if (record.phase == Phase::live) {
      problems.push_back(str(record.directory.native(), ": the ", name(),
                             " volume with its data is gone; it begins anew"));
    }
    bring_in(record.directory, record.limit);
    record = ledger_.get(record.directory);
    return;
  }
  if (record.phase == Phase::emptying) finish_emptying(record);
}

Recovery Mounted::recover() {
  volumes_->sweep(ledger_.ids());
  return ledger_.restore_each([this](Record& record, std::vector<std::string>& problems) {
    restore(record, problems);
    return record.phase == Phase::live;
  });
}

}  // namespace caisson::quota
