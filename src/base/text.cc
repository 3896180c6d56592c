#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

namespace caisson {

namespace {
constexpr std::string_view kSpace = " \t\n\r\f\v";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

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

// How many bytes come before the first that is not ASCII, looking at eight at a time: most of what
// programs write is.
std::size_t ascii_prefix(std::string_view bytes) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::size_t length = 0;
  for (std::uint64_t eight = 0; length + sizeof eight <= bytes.size(); length += sizeof eight) {
    std::memcpy(&eight, bytes.data() + length, sizeof eight);
    if ((eight & kHighBits) != 0) break;
  }
  while (length < bytes.size() && static_cast<unsigned char>(bytes[length]) < 0x80) ++length;
  return length;
}

// How many bytes come before the first that is not UTF-8.
std::size_t valid_prefix(std::string_view bytes) {
  std::size_t length = 0;
  while (length < bytes.size()) {
    length += ascii_prefix(bytes.substr(length));
    if (length == bytes.size()) break;
    const Unit unit = next_unit(bytes.substr(length));
    if (!unit.complete) break;
    length += unit.length;
  }
  return length;
}
}  // namespace

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool is_ascii_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  std::size_t start = 0;
  for (;;) {
    const std::size_t end = text.find(separator, start);
    if (end == std::string_view::npos) {
      pieces.push_back(text.substr(start));
      return pieces;
    }
    pieces.push_back(text.substr(start, end - start));
    start = end + 1;
  }
}

std::string join(const std::vector<std::string>& pieces, std::string_view separator) {
  std::string joined;
  for (const std::string& piece : pieces) {
    if (&piece != &pieces.front()) joined.append(separator);
    joined.append(piece);
  }
  return joined;
}

std::size_t count_of(char wanted, std::string_view text) {
  // A count that fits into a byte is one that compilers keep in vectors of bytes.
  constexpr std::size_t kPiece = 240;
  std::size_t count = 0;
  while (!text.empty()) {
    std::uint8_t in_piece = 0;
    for (const char c : text.substr(0, kPiece)) in_piece += c == wanted ? 1 : 0;
    count += in_piece;
    text.remove_prefix(std::min(kPiece, text.size()));
  }
  return count;
}

std::optional<long long> parse_integer(std::string_view text) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
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

std::string printable(std::string_view text, std::size_t limit) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string safe;
  std::string_view head = text.substr(0, limit);
  if (head.size() < text.size()) head.remove_suffix(incomplete_utf8_tail(head));
  const std::string decoded = decode_utf8(head);
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const char c = decoded[i];
    auto byte = static_cast<unsigned char>(c);
    // U+0080 to U+009F are controls as well: terminals obey U+009B as they obey ESC [.
    const bool c1 = byte == 0xC2 && static_cast<unsigned char>(decoded[i + 1]) < 0xA0;
    if (c1) byte = static_cast<unsigned char>(decoded[++i]);
    if (byte == '\n') {
      safe.append("\\n");
    } else if (c1 || byte < 0x20 || byte == 0x7F) {
      safe.append("\\x");
      safe.push_back(kHex[byte >> 4]);
      safe.push_back(kHex[byte & 0xF]);
    } else {
      safe.push_back(c);
    }
  }
  if (text.size() > limit) safe.append("...");
  return safe;
}

}  // namespace caisson
