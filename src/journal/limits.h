#pragma once
#include <cstdint>

namespace caisson::journal {

// What happens when more is written than is to be kept.
enum class Overflow {
  release_oldest,  // the oldest bytes go; readers that were behind are told
  hold,            // nothing more is taken from the process until what was delivered is released
};

struct Limits {
  std::uint64_t capacity = 16u << 20;  // rounded up to whole blocks
  Overflow overflow = Overflow::release_oldest;
  bool operator==(const Limits&) const = default;
};

// The unit of the index, of verification and of release.
inline constexpr std::uint64_t kBlockSize = 64u << 10;
constexpr std::uint64_t whole_blocks(std::uint64_t offset) {
  return offset / kBlockSize * kBlockSize;
}
inline constexpr std::uint64_t kMaxCapacity = 64ull << 30;

// Of a line that is delivered whole, without its newline. There is room for one in every journal,
// however small its capacity is: who holds such a line back would wait for its end for ever.
inline constexpr std::uint64_t kLongestLine = 16u << 20;

}  // namespace caisson::journal
