#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/utf8.h"

namespace caisson {

namespace {
constexpr std::string_view kSpace = " \t\n\r\f\v";
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
