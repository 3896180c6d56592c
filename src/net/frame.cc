#include "net/frame.h"

#include <cstring>
#include <string>

#include "base/str.h"
#include "base/utf8.h"

namespace caisson::net {

namespace {

constexpr unsigned kFinal = 0x80;
constexpr unsigned kReserved = 0x70;
constexpr unsigned kMasked = 0x80;
constexpr unsigned kShort = 126;  // a length of two bytes follows
constexpr unsigned kLong = 127;   // a length of eight bytes follows

[[noreturn]] void refuse(std::string_view why) {
  throw FrameError(CloseCode::protocol_error, why);
}

unsigned byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i) number = number << 8 | byte_at(bytes, at + i);
  return number;
}

void append_number(std::string& out, std::uint64_t number, std::size_t size) {
  for (std::size_t i = size; i-- > 0;) out.push_back(static_cast<char>(number >> (8 * i) & 0xFF));
}

Opcode opcode_of(unsigned first) {
  const unsigned number = first & 0x0F;
  const bool known = number <= 2 || (number >= 8 && number <= 10);
  if (!known) refuse("an opcode that is reserved");
  return static_cast<Opcode>(number);
}

// Codes that may stand in a Close, as the RFC and the registry have them.
bool may_be_sent(unsigned code) {
  if (code >= 3000 && code <= 4999) return true;
  return code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006;
}

}  // namespace

FrameError::FrameError(CloseCode code, std::string_view why)
    : Error(code == CloseCode::too_big ? ErrorCode::payload_too_large : ErrorCode::protocol_error,
            std::string(why)),
      close_code_(code) {}

std::optional<DecodedHead> decode_frame_head(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  DecodedHead decoded{.size = 2};
  FrameHead& head = decoded.head;
  const unsigned first = byte_at(bytes, 0);
  if ((first & kReserved) != 0) refuse("a reserved bit is set; no extension was agreed on");
  head.opcode = opcode_of(first);
  head.final = (first & kFinal) != 0;
  if (is_control(head.opcode) && !head.final) refuse("a control frame in fragments");
  if (bytes.size() < 2) return std::nullopt;
  const unsigned second = byte_at(bytes, 1);
  const unsigned code = second & ~kMasked;
  if (is_control(head.opcode) && code > kMaxControlPayload) refuse("a control frame that is long");
  head.length = code;
  if (code >= kShort) {
    const std::size_t size = code == kShort ? 2 : 8;
    if (bytes.size() < decoded.size + size) return std::nullopt;
    head.length = number_at(bytes, decoded.size, size);
    decoded.size += size;
    if (head.length >> 63 != 0) refuse("a length with its top bit set");
    if (head.length < (code == kShort ? kShort : 0x10000u)) refuse("a length in too long a form");
  }
  if ((second & kMasked) == 0) return decoded;
  MaskKey key{};
  if (bytes.size() < decoded.size + key.size()) return std::nullopt;
  std::memcpy(key.data(), bytes.data() + decoded.size, key.size());
  head.mask = key;
  decoded.size += key.size();
  return decoded;
}

void append_frame_head(std::string& out, const FrameHead& head) {
  const unsigned masked = head.mask ? kMasked : 0;
  out.push_back(static_cast<char>(static_cast<unsigned>(head.opcode) | (head.final ? kFinal : 0)));
  if (head.length < kShort) {
    out.push_back(static_cast<char>(head.length | masked));
  } else if (head.length < 0x10000) {
    out.push_back(static_cast<char>(kShort | masked));
    append_number(out, head.length, 2);
  } else {
    out.push_back(static_cast<char>(kLong | masked));
    append_number(out, head.length, 8);
  }
  if (head.mask) out.append(head.mask->data(), head.mask->size());
}

void apply_mask(std::span<char> bytes, const MaskKey& key, std::uint64_t offset) {
  std::array<char, 8> pattern{};
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = key[(offset + i) % key.size()];
  std::uint64_t mask = 0;
  std::memcpy(&mask, pattern.data(), sizeof mask);
  std::size_t at = 0;
  for (; bytes.size() - at >= sizeof mask; at += sizeof mask) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    word ^= mask;
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  for (; at < bytes.size(); ++at) {
    bytes[at] = static_cast<char>(bytes[at] ^ pattern[at % pattern.size()]);
  }
}

std::string encode_close(const CloseReason& reason) {
  const auto code = static_cast<unsigned>(reason.code);
  std::string payload;
  if (!may_be_sent(code)) return payload;
  append_number(payload, code, 2);
  std::string_view text = std::string_view(reason.text).substr(0, kMaxControlPayload - 2);
  if (text.size() < reason.text.size()) text.remove_suffix(incomplete_utf8_tail(text));
  if (is_utf8(text)) payload.append(text);
  return payload;
}

CloseReason decode_close(std::string_view payload) {
  if (payload.empty()) return {.code = CloseCode::no_code, .text = ""};
  if (payload.size() < 2) refuse("a Close with half a code");
  const auto code = static_cast<unsigned>(number_at(payload, 0, 2));
  if (!may_be_sent(code)) refuse(str("a Close with code ", code));
  payload.remove_prefix(2);
  if (!is_utf8(payload)) {
    throw FrameError(CloseCode::invalid_text, "the text of a Close is not UTF-8");
  }
  return {.code = static_cast<CloseCode>(code), .text = std::string(payload)};
}

}  // namespace caisson::net
