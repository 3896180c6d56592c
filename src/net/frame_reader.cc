#include "net/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/str.h"

namespace caisson::net {

namespace {

// What is allocated for a message at first; then as much again as has come.
constexpr std::size_t kFirstPiece = 64u << 10;

[[noreturn]] void refuse(std::string_view why) {
  throw FrameError(CloseCode::protocol_error, why);
}

}  // namespace

void FrameReader::begin_frame(const FrameHead& head) {
  if (head.mask.has_value() != (self_ == Role::server)) {
    refuse(self_ == Role::server ? "a frame of a client without a mask"
                                 : "a frame of a server with a mask");
  }
  head_ = head;
  in_frame_ = true;
  frame_read_ = 0;
  if (is_control(head.opcode)) {
    control_.resize(head.length);
    return;
  }
  const bool continues = head.opcode == Opcode::continuation;
  if (continues && !in_message_) refuse("a continuation of nothing");
  if (!continues && in_message_) refuse("a message inside of another");
  if (!continues) {
    in_message_ = true;
    message_.kind = head.opcode == Opcode::text ? MessageKind::text : MessageKind::binary;
    message_read_ = 0;
    validator_ = {};
  }
  if (head.length > max_message_ - message_read_) {
    throw FrameError(CloseCode::too_big, str("a message is larger than ", max_message_, " bytes"));
  }
}

std::span<char> FrameReader::room() {
  if (!in_frame_) return {};
  const std::uint64_t left = head_.length - frame_read_;
  if (is_control(head_.opcode)) return std::span(control_).subspan(frame_read_);
  if (discarding_) return {};
  std::string& data = message_.data;
  if (left > 0 && message_read_ == data.size()) {
    const auto step = std::min<std::uint64_t>(left, std::max(kFirstPiece, data.size()));
    starved_ = !held_.resize(data.size() + step);
    if (starved_) return {};
    data.resize(data.size() + step);
  }
  const auto size = std::min<std::uint64_t>(left, data.size() - message_read_);
  return std::span(data).subspan(message_read_, size);
}

void FrameReader::filled(std::size_t bytes) {
  const std::span<char> piece = room().first(bytes);
  if (head_.mask) apply_mask(piece, *head_.mask, frame_read_);
  frame_read_ += bytes;
  if (is_control(head_.opcode)) return;
  message_read_ += bytes;
  if (message_.kind == MessageKind::text && !validator_.feed({piece.data(), piece.size()})) {
    throw FrameError(CloseCode::invalid_text, "a text message is not UTF-8");
  }
}

FrameReader::Event FrameReader::end_frame() {
  in_frame_ = false;
  switch (head_.opcode) {
    case Opcode::close:
      return Event::close;
    case Opcode::ping:
      return Event::ping;
    case Opcode::pong:
      return Event::pong;
    default:
      break;
  }
  if (!head_.final) return Event::more;
  if (!discarding_ && !validator_.complete()) {
    throw FrameError(CloseCode::invalid_text, "a text message ends within a character");
  }
  in_message_ = false;
  if (discarding_) return Event::more;
  message_.data.resize(message_read_);
  return Event::message;
}

FrameReader::Step FrameReader::read(std::string_view input) {
  Step step;
  for (;;) {
    if (!in_frame_) {
      const std::optional<DecodedHead> decoded = decode_frame_head(input.substr(step.used));
      if (!decoded) return step;
      step.used += decoded->size;
      begin_frame(decoded->head);
    }
    while (frame_read_ < head_.length && step.used < input.size()) {
      if (discarding_ && !is_control(head_.opcode)) {
        const auto bytes =
            std::min<std::uint64_t>(head_.length - frame_read_, input.size() - step.used);
        frame_read_ += bytes;
        step.used += bytes;
        continue;
      }
      const std::span<char> to = room();
      if (to.empty()) return step;
      const std::size_t bytes = std::min(to.size(), input.size() - step.used);
      std::memcpy(to.data(), input.data() + step.used, bytes);
      filled(bytes);
      step.used += bytes;
    }
    if (frame_read_ < head_.length) return step;
    step.event = end_frame();
    if (step.event != Event::more) return step;
  }
}

Message FrameReader::take_message() {
  Message message = std::exchange(message_, {});
  message.held = std::exchange(held_, Charge(share_));
  return message;
}

void FrameReader::discard_messages() {
  discarding_ = true;
  starved_ = false;
  message_ = {};
  message_read_ = 0;
  held_ = Charge(share_);
}

}  // namespace caisson::net
