#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "net/budget.h"
#include "net/frame.h"

namespace caisson::net {

enum class Role { server, client };

enum class MessageKind { text, binary };

struct Message {
  MessageKind kind = MessageKind::text;
  std::string data;
  Charge held = {};  // of one that came in: what it takes of its peer's share
  bool operator==(const Message& other) const { return kind == other.kind && data == other.data; }
};

// Makes messages of the bytes that a peer sends, however they are cut, and refuses what breaks the
// rules: by FrameError, after which it is not used any more. A message that is too big is refused
// by its announced length, and a promise of many bytes is not yet worth their memory. Where there
// is a share, every byte of memory is taken from it before it is used.
class FrameReader {
 public:
  enum class Event { more, message, ping, pong, close };
  struct Step {
    Event event = Event::more;  // more: the whole input is used up, or there is no room
    std::size_t used = 0;       // bytes of the input
  };

  // Whose side this is: a server takes masked frames only, a client takes none.
  FrameReader(Role self, std::uint64_t max_message, std::shared_ptr<Share> share = nullptr)
      : self_(self), max_message_(max_message), share_(std::move(share)), held_(share_) {}

  // Goes on to the next event. What is not used is the beginning of the next input.
  Step read(std::string_view input);
  // Where the next bytes of a frame's payload may be put instead of into an input, when the input
  // is used up: filled(n) says that n of them are there. Empty between frames, and when the share
  // has no room.
  std::span<char> room();
  void filled(std::size_t bytes);

  // A message has begun and is not whole.
  bool in_message() const { return in_message_; }
  // The share had no room for the rest of a message when it was last asked.
  bool starved() const { return starved_; }
  // From now on messages are read and not kept; what there is of one is freed.
  void discard_messages();

  Message take_message();                            // after Event::message
  const std::string& control() { return control_; }  // the payload, after one of the others

 private:
  void begin_frame(const FrameHead& head);
  Event end_frame();

  Role self_;
  std::uint64_t max_message_;
  std::shared_ptr<Share> share_;
  Charge held_;
  bool starved_ = false;
  bool discarding_ = false;
  FrameHead head_;
  bool in_frame_ = false;
  std::uint64_t frame_read_ = 0;
  std::string control_;
  Message message_;
  bool in_message_ = false;
  std::size_t message_read_ = 0;  // of what is allocated
  Utf8Validator validator_;
};

}  // namespace caisson::net
