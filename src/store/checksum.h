#pragma once
#include <bit>
#include <cstdint>
#include <string_view>

namespace caisson::store {

// FNV-1a of 64 bits: every step is one-to-one, so no change of a single byte goes unseen. The
// length of each column goes in before it; otherwise text could move from one to the next.
class Checksum {
 public:
  Checksum& add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    return *this;
  }
  Checksum& add(std::int64_t number) {
    const auto bits = std::bit_cast<std::uint64_t>(number);
    for (unsigned shift = 0; shift < 64; shift += 8) {
      add_byte(static_cast<unsigned char>(bits >> shift));
    }
    return *this;
  }
  std::int64_t value() const { return std::bit_cast<std::int64_t>(hash_); }

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3u; }
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace caisson::store
