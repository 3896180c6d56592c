#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

// The bytes of a websocket's frames (RFC 6455, section 5). Everything here is pure.
namespace caisson::net {

enum class Opcode : std::uint8_t {
  continuation = 0,
  text = 1,
  binary = 2,
  close = 8,
  ping = 9,
  pong = 10,
};

inline bool is_control(Opcode opcode) {
  return (static_cast<unsigned>(opcode) & 8u) != 0;
}

// Why a conversation ends. Applications may use 3000 to 4999 besides.
enum class CloseCode : std::uint16_t {
  normal = 1000,
  going_away = 1001,  // the server stops, or the client leaves
  protocol_error = 1002,
  unsupported_data = 1003,  // a kind of message that is not taken here
  no_code = 1005,           // a Close that gives none; never sent
  lost = 1006,              // the connection ended without a Close; never sent
  invalid_text = 1007,
  policy_violation = 1008,
  too_big = 1009,
  internal_error = 1011,
  try_again_later = 1013,
};

struct CloseReason {
  CloseCode code = CloseCode::normal;
  std::string text;  // for people
  bool operator==(const CloseReason&) const = default;
};

// The peer broke a rule: what its Close is told.
class FrameError : public Error {
 public:
  FrameError(CloseCode code, std::string_view why);
  CloseCode close_code() const { return close_code_; }

 private:
  CloseCode close_code_;
};

using MaskKey = std::array<char, 4>;

struct FrameHead {
  bool final = true;
  Opcode opcode = Opcode::text;
  std::uint64_t length = 0;
  std::optional<MaskKey> mask;
  bool operator==(const FrameHead&) const = default;
};

inline constexpr std::size_t kMaxFrameHead = 14;
inline constexpr std::size_t kMaxControlPayload = 125;

struct DecodedHead {
  FrameHead head;
  std::size_t size = 0;  // of the head itself
};

// nullopt: more bytes are needed. Throws FrameError as soon as a byte is wrong whatever follows: a
// reserved bit or opcode, a control frame that is long or fragmented, a length that has its top
// bit or that fits a shorter form.
std::optional<DecodedHead> decode_frame_head(std::string_view bytes);
void append_frame_head(std::string& out, const FrameHead& head);

// Masks or unmasks in place. `offset` is how much of the frame's payload stands before `bytes`.
void apply_mask(std::span<char> bytes, const MaskKey& key, std::uint64_t offset);

// The payload of a Close. A text that is too long for it is cut between two characters; codes that
// are never sent make it empty.
std::string encode_close(const CloseReason& reason);
// Throws FrameError for a code that nobody may send and for a text that is not UTF-8.
CloseReason decode_close(std::string_view payload);

}  // namespace caisson::net
