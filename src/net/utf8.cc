#include "net/utf8.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace caisson::net {

namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080;

// How many bytes of ASCII there are at the front, in whole pieces of so many words.
template <std::size_t kWords>
std::size_t ascii_pieces(std::string_view bytes) {
  std::size_t length = 0;
  std::array<std::uint64_t, kWords> piece;
  while (bytes.size() - length >= sizeof piece) {
    std::memcpy(piece.data(), bytes.data() + length, sizeof piece);
    std::uint64_t all = 0;
    for (const std::uint64_t word : piece) all |= word;
    if ((all & kHighBits) != 0) break;
    length += sizeof piece;
  }
  return length;
}

}  // namespace

bool Utf8Validator::feed_byte(unsigned char byte) {
  if (missing_ > 0) {
    if (byte < least_ || byte > most_) return false;
    least_ = 0x80;
    most_ = 0xBF;
    --missing_;
    return true;
  }
  if (byte < 0x80) return true;
  if (byte < 0xC2 || byte > 0xF4) return false;
  missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  if (byte == 0xE0) least_ = 0xA0;
  if (byte == 0xED) most_ = 0x9F;
  if (byte == 0xF0) least_ = 0x90;
  if (byte == 0xF4) most_ = 0x8F;
  return true;
}

bool Utf8Validator::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (missing_ == 0 && ascii_pieces<1>(bytes.substr(0, sizeof(std::uint64_t))) > 0) {
      bytes.remove_prefix(ascii_pieces<16>(bytes));  // which fit the processor's vectors
      bytes.remove_prefix(ascii_pieces<1>(bytes));
    }
    // A word that is not all ASCII goes byte by byte.
    for (std::size_t i = 0; i < sizeof(std::uint64_t) && !bytes.empty(); ++i) {
      if (!feed_byte(static_cast<unsigned char>(bytes.front()))) return false;
      bytes.remove_prefix(1);
    }
  }
  return true;
}

}  // namespace caisson::net
