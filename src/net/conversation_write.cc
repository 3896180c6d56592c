#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/random.h"
#include "net/conversation.h"

// What goes out: messages, and control frames between them.
namespace caisson::net {

struct Conversation::Writing {
  explicit Writing(Conversation& owner) : conversation(owner) { owner.writing_ = true; }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() {
    conversation.writing_ = false;
    if (!whole) conversation.lose("the connection broke while a frame was written");
  }
  Conversation& conversation;
  bool whole = false;
};

MaskKey Conversation::next_key() {
  MaskKey key{};
  if (random_used_ == random_.size()) {
    fill_randomly(random_.data(), random_.size());
    random_used_ = 0;
  }
  std::memcpy(key.data(), random_.data() + random_used_, key.size());
  random_used_ += key.size();
  return key;
}

void Conversation::append_control(std::string& out, Opcode opcode, std::string payload) {
  FrameHead head{.opcode = opcode, .length = payload.size()};
  if (role_ == Role::client) {
    head.mask = next_key();
    apply_mask(payload, *head.mask, 0);
  }
  append_frame_head(out, head);
  out += payload;
}

// The control frames that are to be sent. Nothing comes behind a Close.
std::string Conversation::take_control() {
  std::string bytes;
  if (pong_) append_control(bytes, Opcode::pong, *std::exchange(pong_, std::nullopt));
  if (ping_) append_control(bytes, Opcode::ping, *std::exchange(ping_, std::nullopt));
  if (close_) {
    append_control(bytes, Opcode::close, *std::exchange(close_, std::nullopt));
    close_begun_ = true;
  }
  return bytes;
}

// Sends control frames now, unless somebody writes: then they follow the frame that is being sent.
void Conversation::flush() {
  if (writing_ || lost_) return;
  std::string bytes = take_control();
  if (bytes.empty()) return;
  const std::size_t sent = stream_->write_now(bytes);
  if (sent == bytes.size()) return written();
  writing_ = true;
  tasks_.spawn("websocket control frames", write_control(shared_from_this(), bytes.substr(sent)));
}

Task<void> Conversation::write_control(std::shared_ptr<Conversation> self, std::string bytes) {
  {
    Writing writing(*self);
    const std::array<std::string_view, 1> pieces = {bytes};
    writing.whole = co_await self->stream_->write(pieces, std::nullopt);
    if (!writing.whole) co_return;
  }
  self->written();
}

// What was being written is written.
void Conversation::written() {
  if (close_begun_) close_sent_ = true;
  check_closed();
  may_write_.notify();
  flush();
}

// False: nothing is written any more.
Task<bool> Conversation::may_write() {
  while (writing_) co_await may_write_.wait();
  co_return !closing_;
}

// The head of a piece of a message.
FrameHead Conversation::next_head(const Message& message, std::size_t at, std::size_t size) {
  const Opcode kind = message.kind == MessageKind::text ? Opcode::text : Opcode::binary;
  FrameHead head{.final = at + size == message.data.size(),
                 .opcode = at == 0 ? kind : Opcode::continuation,
                 .length = size};
  if (role_ == Role::client) head.mask = next_key();
  return head;
}

// What waits to be written, for the peer and for its turn, is kept in memory meanwhile.
Charge Conversation::keep(std::size_t bytes) {
  Charge charge(stream_->share(), Flow::outgoing);
  if (!charge.resize(bytes)) {
    begin_close({.code = CloseCode::try_again_later,
                 .text = "there is no room for what this peer does not take"});
  }
  return charge;
}

Task<bool> Conversation::write(std::shared_ptr<Conversation> self, Message message) {
  const Charge kept = self->keep(message.data.size());
  const auto turn = co_await self->writers_.take();
  const std::size_t longest =
      self->options_.max_fragment > 0 ? self->options_.max_fragment : message.data.size();
  std::size_t at = 0;
  do {
    if (!co_await self->may_write()) co_return false;
    const std::span<char> piece =
        std::span(message.data).subspan(at, std::min(longest, message.data.size() - at));
    const FrameHead head = self->next_head(message, at, piece.size());
    if (head.mask) apply_mask(piece, *head.mask, 0);
    std::string front = self->take_control();
    append_frame_head(front, head);
    {
      Writing writing(*self);
      const std::array<std::string_view, 2> pieces = {front, {piece.data(), piece.size()}};
      writing.whole = co_await self->stream_->write(pieces, std::nullopt);
      if (!writing.whole) co_return false;
    }
    self->written();
    at += piece.size();
  } while (at < message.data.size());
  co_return true;
}

void Conversation::append_text(std::string& out, std::string text) {
  Message message{.kind = MessageKind::text, .data = std::move(text)};
  const FrameHead head = next_head(message, 0, message.data.size());
  if (head.mask) apply_mask(message.data, *head.mask, 0);
  append_frame_head(out, head);
  out += message.data;
}

Task<bool> Conversation::write_texts(std::shared_ptr<Conversation> self,
                                     std::vector<std::string> texts,
                                     std::function<void(std::size_t)> taken) {
  if (texts.empty()) co_return true;
  std::size_t size = 0;
  for (const std::string& text : texts) size += text.size();
  const Charge kept = self->keep(size);
  const auto turn = co_await self->writers_.take();
  if (!co_await self->may_write()) co_return false;
  std::string bytes = self->take_control();
  std::vector<std::size_t> ends;  // of each, in bytes
  for (std::string& text : texts) {
    self->append_text(bytes, std::move(text));
    ends.push_back(bytes.size());
  }
  {
    Writing writing(*self);
    std::size_t sent = 0;
    std::size_t whole = 0;
    const auto count = [&] {
      const std::size_t before = whole;
      while (whole < ends.size() && ends[whole] <= sent) ++whole;
      if (whole > before) taken(whole);
    };
    while (whole < ends.size()) {
      sent += self->stream_->write_now(std::string_view(bytes).substr(sent));
      count();
      if (whole == ends.size()) break;
      // The peer does not keep up: one at a time, so that nobody waits for more than one.
      const std::array<std::string_view, 1> rest = {
          std::string_view(bytes).substr(sent, ends[whole] - sent)};
      if (!co_await self->stream_->write(rest, std::nullopt)) co_return false;
      sent = ends[whole];
      count();
    }
    writing.whole = true;
  }
  self->written();
  co_return true;
}

}  // namespace caisson::net
