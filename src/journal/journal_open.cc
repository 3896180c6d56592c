// How a journal comes to be, is found again, and goes.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "journal/journal.h"

namespace caisson::journal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxIndexSize = 64u << 20;

fs::path index_path(const fs::path& path) {
  return str(path.native(), ".index");
}

std::uint64_t file_size(int fd, const fs::path& path) {
  struct stat status {};
  check_syscall(path.native(), ::fstat(fd, &status));
  return static_cast<std::uint64_t>(status.st_size);
}

// A regular file, open for both. Without one, `problem` says why; what may be different in a
// moment, as a lack of descriptors, is thrown.
UniqueFd open_regular(const fs::path& path, std::string_view what, std::string& problem) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const int error = errno;
  struct stat status {};
  if (file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) return file;
  if (file || error == EISDIR || error == ELOOP || error == ENXIO) {
    problem = str(what, " is no regular file");
  } else if (error == ENOENT) {
    problem = str(what, " is missing");
  } else if (error == EACCES || error == EPERM || error == EIO) {
    problem = str(what, " cannot be opened: ", error_text(error));
  } else {
    throw SystemError(path.native(), error);
  }
  return {};
}

// False when there is nothing of that name.
bool rename_if_there(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == ENOENT) return false;
  throw SystemError(to.native(), errno);
}

void set_aside(const fs::path& path, Damage& damage) {
  for (unsigned number = 1;; ++number) {
    const fs::path data = str(path.native(), ".damaged-", number);
    const fs::path index = index_path(data);
    if (fs::exists(data) || fs::exists(index)) continue;
    // The file goes last: a process that is killed in between leaves what tells where to go on.
    if (rename_if_there(index_path(path), index)) damage.index_kept_as = index;
    if (rename_if_there(path, data)) damage.data_kept_as = data;
    return;
  }
}

// Where the stream of a damaged journal ended, as far as anything tells. What the index has
// recorded has been there, although the file may have been cut since.
std::uint64_t presumed_end(std::span<std::byte> memory, std::uint64_t size) {
  if (!BlockIndex::sound_header(memory)) return size;
  const BlockIndex index(memory);
  if (index.blocks() > 0 && !index.find(index.blocks() - 1)) return size;
  return std::max(size, index.recorded_end());
}

}  // namespace

Journal::Journal(fs::path path, UniqueFd file, MappedFile mapped)
    : path_(std::move(path)),
      file_(std::move(file)),
      mapped_(std::move(mapped)),
      index_(mapped_.bytes()),
      limits_(index_.limits()),
      end_(file_size(file_.get(), path_)),
      open_{.end = start_of_open_block()} {}

std::unique_ptr<Journal> Journal::make(const fs::path& path, const Limits& limits,
                                       std::uint64_t begin) {
  const std::string content = BlockIndex::make(limits, begin);
  UniqueFd file = open_file(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  try {
    check_syscall(path.native(), ::ftruncate(file.get(), static_cast<off_t>(begin)));
    // A file system that cannot release what is old must not be found out when the journal is full.
    check_syscall(str("journal ", path.native(), ": releasing old output on this file system"),
                  ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                              static_cast<off_t>(kBlockSize)));
    MappedFile mapped = MappedFile::create(index_path(path), content);
    return std::unique_ptr<Journal>(new Journal(path, std::move(file), std::move(mapped)));
  } catch (const SystemError& error) {
    ::unlink(path.c_str());
    if (error.error_number() != ENOSPC && error.error_number() != EDQUOT) throw;
    throw Error(ErrorCode::storage_full, error.what());
  }
}

std::unique_ptr<Journal> Journal::create(const fs::path& directory, const std::string& name,
                                         const Limits& limits) {
  return make(directory / name, limits, 0);
}

// The journal if nothing is wrong with it; else says what is, and what is known for a new one.
std::unique_ptr<Journal> Journal::adopt(const fs::path& path, Damage& damage, MappedFile& mapped,
                                        std::uint64_t& size) {
  UniqueFd file = open_regular(path, "its file", damage.reason);
  if (file) size = file_size(file.get(), path);
  const UniqueFd index = open_regular(index_path(path), "its index", damage.reason);
  if (index) mapped = MappedFile::open(index_path(path), kMaxIndexSize);
  if (!file || !index) return nullptr;
  if (auto problem = BlockIndex::problem(mapped.bytes(), size)) {
    damage.reason = std::move(*problem);
    return nullptr;
  }
  std::unique_ptr<Journal> journal(new Journal(path, std::move(file), std::move(mapped)));
  for (std::uint64_t at = whole_blocks(journal->begin()); at < size; at += kBlockSize) {
    if (journal->sound(at / kBlockSize, at, {})) continue;
    damage.reason = str("what it has at offset ", at, " is not what was recorded");
    mapped = MappedFile::open(index_path(path), kMaxIndexSize);
    return nullptr;
  }
  for (std::size_t which = 0; which < kMarks; ++which) {
    if (journal->mark(which) > size) journal->set_mark(which, size);
  }
  return journal;
}

Journal::Opened Journal::open(const fs::path& directory, const std::string& name,
                              const Limits& limits, std::uint64_t end_at_most) {
  const fs::path path = directory / name;
  Damage damage;
  MappedFile mapped;
  std::uint64_t size = 0;
  if (std::unique_ptr<Journal> journal = adopt(path, damage, mapped, size)) {
    journal->index();
    return {.journal = std::move(journal)};
  }
  const bool empty = size == 0 && end_at_most == 0 && ::access(index_path(path).c_str(), F_OK) != 0;
  if (empty && ::unlink(path.c_str()) == 0) {
    return {.journal = make(path, limits, 0)};  // its creation was interrupted
  }
  const bool sound = BlockIndex::sound_header(mapped.bytes());
  const std::uint64_t known = presumed_end(mapped.bytes(), size);
  const std::uint64_t end = sound || known > 0 ? known : end_at_most;
  set_aside(path, damage);
  std::unique_ptr<Journal> fresh =
      make(path, sound ? BlockIndex(mapped.bytes()).limits() : limits, end);
  if (sound) {
    const BlockIndex old(mapped.bytes());
    for (std::size_t which = 0; which < kMarks; ++which) {
      fresh->set_mark(which, std::min(old.mark(which), end));
    }
    if (old.closed()) fresh->mark_closed();
  }
  return {.journal = std::move(fresh), .damage = std::move(damage)};
}

void Journal::remove(const fs::path& directory, const std::string& name) {
  const fs::path path = directory / name;
  for (const fs::path& file : {path, index_path(path)}) {
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) throw SystemError(file.native(), errno);
  }
}

}  // namespace caisson::journal
