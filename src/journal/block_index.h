#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "journal/limits.h"

namespace caisson::journal {

// One complete block of the stream.
struct Block {
  std::uint64_t number = 0;
  std::uint32_t crc = 0;          // CRC-32C of its bytes
  std::int64_t completed_us = 0;  // wall clock when it was complete; never less than the one before
  std::uint64_t newlines = 0;     // in the stream up to its end
};

inline constexpr std::size_t kMarks = 4;

// What has come behind the last complete block.
struct Tail {
  std::uint64_t bytes = 0;  // less than a block
  std::uint32_t crc = 0;    // CRC-32C of them
  bool operator==(const Tail&) const = default;
};

// What lies beside the bytes of a journal: its limits, where it begins, whether the stream has
// ended, marks of its owner, a ring of the latest blocks, and the tail. It is laid over memory that
// somebody else mapped.
//
// Every change is one 64-bit store, or becomes visible by one, so that what a killed writer leaves
// is always a state that it meant. One thread at a time writes; any thread may read meanwhile.
// The memory is read once, but for the ring, whose entries carry checksums: whatever somebody else
// writes into the file while a daemon uses it, the numbers that it goes by stay its own.
class BlockIndex {
 public:
  // `memory` is aligned to 8 and has no problem().
  explicit BlockIndex(std::span<std::byte> memory);

  // A new index of a stream of which nothing before `begin` is kept.
  static std::string make(const Limits& limits, std::uint64_t begin);
  // How much a journal may grow over its capacity before its oldest bytes are released, and how
  // much of it a single step may take.
  static std::uint64_t slack(std::uint64_t capacity) { return capacity / 8; }
  static std::uint64_t step(std::uint64_t capacity);

  // Why these bytes are not the index of a journal whose file has this size; nullopt when they are.
  // Reads nothing outside of them, whatever they are.
  static std::optional<std::string> problem(std::span<const std::byte> memory,
                                            std::uint64_t file_size);
  // Whether the part that never changes is sound: then limits(), closed() and mark() may be asked.
  static bool sound_header(std::span<const std::byte> memory);

  Limits limits() const { return limits_; }
  // How many bytes may be kept from any offset on.
  std::uint64_t room() const;
  std::uint64_t begin() const { return own_.begin.load(); }
  void set_begin(std::uint64_t offset);
  bool closed() const { return own_.closed.load() != 0; }
  void set_closed();
  std::uint64_t mark(std::size_t which) const { return own_.marks.at(which).load(); }
  void set_mark(std::size_t which, std::uint64_t value);

  // Blocks 0 to blocks() - 1 have been recorded; the ring still has the latest of them.
  std::uint64_t blocks() const { return own_.blocks.load(); }
  // Nullopt when it was never recorded, has left the ring, or is damaged.
  std::optional<Block> find(std::uint64_t number) const;
  void add(const Block& block);  // number == blocks()

  // The tail as it was last recorded, if it is in the block of this number. Nullopt when it is not
  // known: it never was recorded, or a kill came between a block and its tail.
  std::optional<Tail> tail(std::uint64_t number) const;
  void set_tail(const Tail& tail);  // of the block blocks()
  // How far the stream certainly went.
  std::uint64_t recorded_end() const;

 private:
  using Atomic = std::atomic<std::uint64_t>;
  // What changes, in the file and in this process.
  struct Numbers {
    Atomic begin;
    Atomic closed;
    Atomic blocks;
    std::array<Atomic, kMarks> marks;
    Atomic tail;  // 0: not known
  };
  struct Header;
  struct Entry;
  Entry& entry(std::uint64_t number) const;

  Header& header_;
  Entry* const ring_;
  const std::uint64_t ring_size_;
  const Limits limits_;
  Numbers own_;
};

}  // namespace caisson::journal
