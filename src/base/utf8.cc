#include "base/utf8.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

namespace caisson {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

bool is_continuation(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

// The second byte's range depends on the first (Unicode 15, table 3-7).
bool second_byte_fits(unsigned char first, unsigned char second) {
  switch (first) {
    case 0xE0:
      return second >= 0xA0 && second <= 0xBF;
    case 0xED:
      return second >= 0x80 && second <= 0x9F;
    case 0xF0:
      return second >= 0x90 && second <= 0xBF;
    case 0xF4:
      return second >= 0x80 && second <= 0x8F;
    default:
      return is_continuation(second);
  }
}

std::size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

// The longest prefix of `bytes` that is, or could become, one character: its length and whether it
// is complete.
struct Unit {
  std::size_t length;
  bool complete;
};
Unit next_unit(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::size_t wanted = sequence_length(at(0));
  if (wanted == 0) return {1, false};
  if (wanted == 1) return {1, true};
  std::size_t length = 1;
  while (length < wanted && length < bytes.size()) {
    const bool fits = length == 1 ? second_byte_fits(at(0), at(1)) : is_continuation(at(length));
    if (!fits) break;
    ++length;
  }
  return {length, length == wanted};
}

// How many bytes of ASCII there are at the front, in whole pieces of so many words.
template <std::size_t kWords>
std::size_t ascii_pieces(std::string_view bytes) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
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

// How many bytes come before the first that is not ASCII: most of what programs write is.
std::size_t ascii_prefix(std::string_view bytes) {
  std::size_t length = ascii_pieces<16>(bytes);  // which fit the processor's vectors
  length += ascii_pieces<1>(bytes.substr(length));
  while (length < bytes.size() && is_ascii(bytes[length])) ++length;
  return length;
}

// How many bytes come before the first that is not UTF-8.
std::size_t valid_prefix(std::string_view bytes) {
  std::size_t length = 0;
  while (length < bytes.size()) {
    const std::string_view rest = bytes.substr(length);
    if (is_ascii(rest.front())) {
      length += ascii_prefix(rest);
      continue;
    }
    const Unit unit = next_unit(rest);
    if (!unit.complete) break;
    length += unit.length;
  }
  return length;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  return valid_prefix(bytes) == bytes.size();
}

std::string decode_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (;;) {
    const std::size_t sound = valid_prefix(bytes);
    text.append(bytes.substr(0, sound));
    bytes.remove_prefix(sound);
    if (bytes.empty()) return text;
    text.append(kReplacement);
    bytes.remove_prefix(next_unit(bytes).length);
  }
}

std::string repair_utf8(std::string bytes) {
  return is_utf8(bytes) ? std::move(bytes) : decode_utf8(bytes);
}

std::size_t incomplete_utf8_tail(std::string_view bytes) {
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const std::string_view tail = bytes.substr(bytes.size() - back);
    const auto first = static_cast<unsigned char>(tail[0]);
    if (is_continuation(first)) continue;
    const Unit unit = next_unit(tail);
    const bool wants_more = !unit.complete && unit.length == back && sequence_length(first) > back;
    return wants_more ? back : 0;
  }
  return 0;
}

bool Utf8Validator::feed(std::string_view bytes) {
  while (!half_.empty() && !bytes.empty()) {
    half_.push_back(bytes.front());
    bytes.remove_prefix(1);
    const Unit unit = next_unit(half_);
    if (unit.length < half_.size()) return false;
    if (unit.complete) half_.clear();
  }
  bytes.remove_prefix(valid_prefix(bytes));
  if (incomplete_utf8_tail(bytes) != bytes.size()) return false;
  half_.append(bytes);
  return true;
}

}  // namespace caisson
