#include "journal/block_index.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/str.h"
#include "journal/crc32c.h"

namespace caisson::journal {
namespace {

constexpr std::array<char, 8> kMagic = {'C', 'A', 'I', 'S', 'J', 'R', 'N', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kMostAtOnce = 1u << 20;

constexpr std::uint64_t kTailBits = 16;
static_assert(kBlockSize == std::uint64_t{1} << kTailBits);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t));

// Beside the blocks that are kept as a whole, those at either end.
constexpr std::uint64_t kPartlyKept = 2;

// Blocks that may be kept at once, of a journal that does not stretch for a line: all that the
// index of an earlier release has room for.
std::uint64_t least_ring_size(std::uint64_t capacity) {
  return (capacity + BlockIndex::slack(capacity) + BlockIndex::step(capacity)) / kBlockSize +
         kPartlyKept;
}

// The same with the longest line, its newline, and the slack behind it.
std::uint64_t ring_size(std::uint64_t capacity) {
  const std::uint64_t line = kLongestLine + 1 + BlockIndex::slack(capacity);
  return std::max(least_ring_size(capacity), (line + kBlockSize - 1) / kBlockSize + kPartlyKept);
}

}  // namespace

struct BlockIndex::Header {
  struct Fixed {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t overflow;
    std::uint64_t capacity;
    std::uint64_t ring_size;
  };
  Fixed fixed;
  std::uint64_t check;  // CRC-32C of `fixed`
  Numbers numbers;
  std::array<std::uint64_t, 3> unused;
};

struct BlockIndex::Entry {
  Atomic number_plus_one;  // 0 while the entry is being changed
  Atomic completed_us;
  Atomic newlines;
  Atomic checks;  // CRC-32C of the block, and above it one of this entry
};

namespace {

std::uint64_t entry_checks(const Block& block) {
  const std::array<std::uint64_t, 4> fields = {
      block.number, static_cast<std::uint64_t>(block.completed_us), block.newlines, block.crc};
  const std::uint32_t own = crc32c({reinterpret_cast<const char*>(fields.data()), sizeof fields});
  return std::uint64_t{own} << 32 | block.crc;
}

// Size and checksum of the tail in one word, which one store changes. Above them stands a check of
// both and of the block's number, so that the tail of another block does not pass for this one's.
std::uint64_t tail_word(std::uint64_t block, const Tail& tail) {
  const std::array<std::uint64_t, 3> fields = {block, tail.bytes, tail.crc};
  const std::uint32_t check = crc32c({reinterpret_cast<const char*>(fields.data()), sizeof fields});
  return std::uint64_t{check | 1} << 48 | tail.bytes << 32 | tail.crc;
}

std::uint32_t fixed_check(const void* fixed, std::size_t size) {
  return crc32c({static_cast<const char*>(fixed), size});
}

}  // namespace

std::uint64_t BlockIndex::step(std::uint64_t capacity) {
  return std::clamp(slack(capacity), kBlockSize, kMostAtOnce);
}

BlockIndex::BlockIndex(std::span<std::byte> memory)
    : header_(*reinterpret_cast<Header*>(memory.data())),
      ring_(reinterpret_cast<Entry*>(memory.data() + sizeof(Header))),
      ring_size_(header_.fixed.ring_size),
      limits_{.capacity = header_.fixed.capacity,
              .overflow = static_cast<Overflow>(header_.fixed.overflow)} {
  const Numbers& kept = header_.numbers;
  own_.begin = kept.begin.load();
  own_.closed = kept.closed.load();
  own_.blocks = kept.blocks.load();
  for (std::size_t which = 0; which < kMarks; ++which) {
    own_.marks.at(which) = kept.marks.at(which).load();
  }
  own_.tail = kept.tail.load();
}

std::string BlockIndex::make(const Limits& limits, std::uint64_t begin) {
  if (limits.capacity == 0 || limits.capacity > kMaxCapacity) {
    throw Error(ErrorCode::validation_error,
                str("journal capacity ", limits.capacity, " is not between 1 and ", kMaxCapacity));
  }
  const std::uint64_t capacity = (limits.capacity + kBlockSize - 1) / kBlockSize * kBlockSize;
  const Header::Fixed fixed{.magic = kMagic,
                            .version = kVersion,
                            .overflow = static_cast<std::uint32_t>(limits.overflow),
                            .capacity = capacity,
                            .ring_size = ring_size(capacity)};
  const std::uint64_t check = fixed_check(&fixed, sizeof fixed);
  const std::uint64_t blocks = begin / kBlockSize;
  std::string bytes(sizeof(Header) + fixed.ring_size * sizeof(Entry), '\0');
  std::memcpy(bytes.data() + offsetof(Header, fixed), &fixed, sizeof fixed);
  std::memcpy(bytes.data() + offsetof(Header, check), &check, sizeof check);
  std::memcpy(bytes.data() + offsetof(Header, numbers.begin), &begin, sizeof begin);
  std::memcpy(bytes.data() + offsetof(Header, numbers.blocks), &blocks, sizeof blocks);
  return bytes;
}

bool BlockIndex::sound_header(std::span<const std::byte> memory) {
  if (memory.size() < sizeof(Header)) return false;
  const auto* header = reinterpret_cast<const Header*>(memory.data());
  const Header::Fixed& fixed = header->fixed;
  return fixed.magic == kMagic && fixed.version == kVersion &&
         header->check == fixed_check(&fixed, sizeof fixed) && fixed.overflow <= 1 &&
         fixed.capacity > 0 && fixed.capacity <= kMaxCapacity && fixed.capacity % kBlockSize == 0 &&
         fixed.ring_size >= least_ring_size(fixed.capacity) &&
         fixed.ring_size <= ring_size(fixed.capacity) &&
         memory.size() == sizeof(Header) + fixed.ring_size * sizeof(Entry);
}

std::optional<std::string> BlockIndex::problem(std::span<const std::byte> memory,
                                               std::uint64_t file_size) {
  if (!sound_header(memory)) return "its index has no valid header";
  // Only read: the constructor takes what may be written to.
  const BlockIndex index({const_cast<std::byte*>(memory.data()), memory.size()});
  const std::uint64_t blocks = index.blocks();
  const std::uint64_t begin = index.begin();
  if (index.own_.closed > 1) return "its index has an invalid end mark";
  if (begin > file_size) {
    return str("it has ", file_size, " bytes but its index says that it begins at ", begin);
  }
  if (blocks > file_size / kBlockSize) {
    return str("it has ", file_size, " bytes but its index covers ", blocks, " blocks of ",
               kBlockSize);
  }
  // What was recorded has been there: somebody has cut the file, and offsets must not come twice.
  if (const std::uint64_t end = index.recorded_end(); end > file_size) {
    return str("it has ", file_size, " bytes, but ", end, " were recorded");
  }
  const std::uint64_t first = begin / kBlockSize;
  if (const std::uint64_t kept = file_size / kBlockSize - first; kept > index.ring_size_) {
    return str("it keeps ", kept, " blocks, which is more than its index has room for");
  }
  std::optional<Block> before;
  for (std::uint64_t number = first; number < blocks; ++number) {
    const std::optional<Block> block = index.find(number);
    if (!block) return str("its index has no valid entry for block ", number);
    if (before &&
        (block->completed_us < before->completed_us || block->newlines < before->newlines ||
         block->newlines - before->newlines > kBlockSize)) {
      return str("its index contradicts itself at block ", number);
    }
    before = block;
  }
  return std::nullopt;
}

std::uint64_t BlockIndex::room() const {
  return (ring_size_ - kPartlyKept) * kBlockSize;
}

void BlockIndex::set_begin(std::uint64_t offset) {
  own_.begin.store(offset);
  header_.numbers.begin.store(offset);
}

void BlockIndex::set_closed() {
  own_.closed.store(1);
  header_.numbers.closed.store(1);
}

void BlockIndex::set_mark(std::size_t which, std::uint64_t value) {
  own_.marks.at(which).store(value);
  header_.numbers.marks.at(which).store(value);
}

BlockIndex::Entry& BlockIndex::entry(std::uint64_t number) const {
  return ring_[number % ring_size_];
}

std::optional<Block> BlockIndex::find(std::uint64_t number) const {
  const Entry& found = entry(number);
  if (found.number_plus_one.load() != number + 1) return std::nullopt;
  const std::uint64_t checks = found.checks.load();
  const Block block{.number = number,
                    .crc = static_cast<std::uint32_t>(checks),
                    .completed_us = static_cast<std::int64_t>(found.completed_us.load()),
                    .newlines = found.newlines.load()};
  // A writer that came round the ring meanwhile is told by this as well.
  if (checks != entry_checks(block)) return std::nullopt;
  return block;
}

void BlockIndex::add(const Block& block) {
  assert(block.number == blocks());
  Entry& place = entry(block.number);
  place.number_plus_one.store(0);
  place.completed_us.store(static_cast<std::uint64_t>(block.completed_us));
  place.newlines.store(block.newlines);
  place.checks.store(entry_checks(block));
  place.number_plus_one.store(block.number + 1);
  own_.tail.store(0);
  header_.numbers.tail.store(0);
  own_.blocks.store(block.number + 1);
  header_.numbers.blocks.store(block.number + 1);
}

std::optional<Tail> BlockIndex::tail(std::uint64_t number) const {
  const std::uint64_t word = own_.tail.load();
  const Tail tail{.bytes = word >> 32 & (kBlockSize - 1), .crc = static_cast<std::uint32_t>(word)};
  if (word != tail_word(number, tail)) return std::nullopt;
  return tail;
}

void BlockIndex::set_tail(const Tail& tail) {
  const std::uint64_t word = tail_word(blocks(), tail);
  own_.tail.store(word);
  header_.numbers.tail.store(word);
}

std::uint64_t BlockIndex::recorded_end() const {
  const std::optional<Tail> known = tail(blocks());
  return blocks() * kBlockSize + (known ? known->bytes : 0);
}

}  // namespace caisson::journal
