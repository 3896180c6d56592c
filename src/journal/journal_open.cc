// How a journal comes to be, is found again, and goes.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

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

// False when there is nothing of that name.
bool rename_if_there(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == ENOENT) return false;
  throw SystemError(to.native(), errno);
}

void set_aside(const fs::path& path, Damage& damage) {
  for (unsigned number = 1;; ++number) {
    const fs::path data = str(path.native(), ".corrupt-", number);
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
  const std::uint64_t blocks = index.blocks();
  if (blocks == 0 || !index.find(blocks - 1)) return size;
  return std::max(size, blocks * kBlockSize);
}

}  // namespace

Journal::Journal(fs::path path, UniqueFd file, MappedFile mapped)
    : path_(std::move(path)),
      file_(std::move(file)),
      mapped_(std::move(mapped)),
      index_(mapped_.bytes()),
      limits_(index_.limits()),
      end_(file_size(file_.get(), path_)) {}

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
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file && errno != ENOENT) throw SystemError(path.native(), errno);
  size = file ? file_size(file.get(), path) : 0;
  const bool has_index = fs::exists(index_path(path));
  if (!file && !has_index) {
    throw Error(ErrorCode::not_found, str("there is no journal ", path.native()));
  }
  if (has_index) mapped = MappedFile::open(index_path(path), kMaxIndexSize);
  if (!file) {
    damage.reason = "its file is missing";
  } else if (!has_index) {
    damage.reason = "its index is missing";
  } else if (auto problem = BlockIndex::problem(mapped.bytes(), size)) {
    damage.reason = std::move(*problem);
  } else {
    std::unique_ptr<Journal> journal(new Journal(path, std::move(file), std::move(mapped)));
    auto block = journal->find_damaged_block();
    if (!block) return journal;
    damage.reason = std::move(*block);
    mapped = MappedFile::open(index_path(path), kMaxIndexSize);
  }
  return nullptr;
}

Journal::Opened Journal::open(const fs::path& directory, const std::string& name,
                              const Limits& limits) {
  const fs::path path = directory / name;
  Damage damage;
  MappedFile mapped;
  std::uint64_t size = 0;
  if (std::unique_ptr<Journal> journal = adopt(path, damage, mapped, size)) {
    journal->index();
    return {.journal = std::move(journal)};
  }
  if (size == 0 && !fs::exists(index_path(path))) {
    // Its creation was interrupted, before a byte could go into it.
    check_syscall(path.native(), ::unlink(path.c_str()));
    return {.journal = make(path, limits, 0)};
  }
  set_aside(path, damage);
  const bool sound = BlockIndex::sound_header(mapped.bytes());
  const std::uint64_t begin = presumed_end(mapped.bytes(), size);
  std::unique_ptr<Journal> fresh =
      make(path, sound ? BlockIndex(mapped.bytes()).limits() : limits, begin);
  if (sound) {
    const BlockIndex old(mapped.bytes());
    for (std::size_t which = 0; which < kMarks; ++which) fresh->set_mark(which, old.mark(which));
    if (old.closed()) fresh->mark_closed();
  }
  return {.journal = std::move(fresh), .damage = std::move(damage)};
}

std::optional<std::string> Journal::find_damaged_block() const {
  std::vector<char> buffer(kBlockSize);
  for (std::uint64_t number = begin() / kBlockSize; number < index_.blocks(); ++number) {
    const std::optional<Block> recorded = index_.find(number);
    if (!recorded || read_block(number, buffer).crc != recorded->crc) {
      return str("block ", number, " (at offset ", number * kBlockSize,
                 ") is not what was recorded");
    }
  }
  return std::nullopt;
}

void Journal::remove(const fs::path& directory, const std::string& name) {
  const fs::path path = directory / name;
  for (const fs::path& file : {path, index_path(path)}) {
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) throw SystemError(file.native(), errno);
  }
}

}  // namespace caisson::journal
