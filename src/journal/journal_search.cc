// Finding places in a journal by its index.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "journal/journal.h"

namespace caisson::journal {

std::uint64_t Journal::offset_at_time(std::int64_t wall_clock_us) const {
  const std::uint64_t blocks = index_.blocks();
  std::uint64_t number = std::min(begin() / kBlockSize, blocks);
  // An entry that has left the ring is older than what is kept.
  for (; number < blocks; ++number) {
    const std::optional<Block> block = index_.find(number);
    if (block && block->completed_us >= wall_clock_us) break;
  }
  return std::max(number * kBlockSize, begin());
}

std::uint64_t Journal::offset_of_last_lines(std::uint64_t count) const {
  const std::uint64_t last = end();
  const std::uint64_t blocks = index_.blocks();
  if (count == 0 || last == begin()) return last;
  const std::optional<Block> recorded = blocks > 0 ? index_.find(blocks - 1) : std::nullopt;
  const std::uint64_t before_tail = recorded ? recorded->newlines : 0;
  const std::uint64_t tail = std::max(blocks * kBlockSize, begin());
  std::uint64_t lines = before_tail + count_newlines(tail, last);
  char final_byte = '\n';
  const ReadResult read_final = read(last - 1, {&final_byte, 1});
  if (!read_final.truncated && final_byte != '\n') ++lines;
  if (lines <= count) return begin();

  // The lines begin behind this newline of the stream, counted from one.
  const std::uint64_t wanted = lines - count;
  std::uint64_t from = tail;
  std::uint64_t seen = before_tail;
  for (std::uint64_t number = blocks; seen >= wanted && number > begin() / kBlockSize; --number) {
    const std::optional<Block> before = number > 1 ? index_.find(number - 2) : std::nullopt;
    from = (number - 1) * kBlockSize;
    if (!before) {
      // The first that is kept: what it has counted itself is not known, but can be counted.
      seen -= count_newlines(from, number * kBlockSize);
      break;
    }
    seen = before->newlines;
  }
  if (seen >= wanted) return begin();
  const auto found = behind_newline(from, wanted - seen);
  return std::max(found.value_or(begin()), begin());
}

// Counts what is kept; a block that is partly released is still there as a whole.
std::uint64_t Journal::count_newlines(std::uint64_t from, std::uint64_t to) const {
  std::vector<char> buffer(kBlockSize);
  std::uint64_t newlines = 0;
  while (from < to) {
    const std::size_t got =
        read_exactly(from, std::span(buffer).first(std::min(kBlockSize, to - from)));
    if (got == 0) break;
    newlines += count_of('\n', {buffer.data(), got});
    from += got;
  }
  return newlines;
}

// The offset just behind the count-th newline at or after `from`.
std::optional<std::uint64_t> Journal::behind_newline(std::uint64_t from,
                                                     std::uint64_t count) const {
  std::vector<char> buffer(kBlockSize);
  const std::uint64_t last = end();
  while (from < last) {
    const std::size_t got =
        read_exactly(from, std::span(buffer).first(std::min(kBlockSize, last - from)));
    const char* place = buffer.data();
    const char* const stop = place + got;
    while ((place = static_cast<const char*>(
                std::memchr(place, '\n', static_cast<std::size_t>(stop - place)))) != nullptr) {
      ++place;
      if (--count == 0) return from + static_cast<std::uint64_t>(place - buffer.data());
    }
    if (got == 0) break;
    from += got;
  }
  return std::nullopt;
}

}  // namespace caisson::journal
