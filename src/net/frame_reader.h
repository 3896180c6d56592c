#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "net/frame.h"

namespace caisson::net {

enum class Role { server, client };

enum class MessageKind { text, binary };

struct Message {
  MessageKind kind = MessageKind::text;
  std::string data;
  bool operator==(const Message&) const = default;
};

// Makes messages of the bytes that a peer sends, however they are cut, and refuses what breaks the
// rules: by FrameError, after which it is not used any more. A message that is too big is refused
// by its announced length, and a promise of many bytes is not yet worth their memory.
class FrameReader {
 public:
  enum class Event { more, message, ping, pong, close };
  struct Step {
    Event event = Event::more;  // more: every whole byte of the input is used up
    std::size_t used = 0;       // bytes of the input
  };

  // Whose side this is: a server takes masked frames only, a client takes none.
  FrameReader(Role self, std::uint64_t max_message) : self_(self), max_message_(max_message) {}

  // Goes on to the next event. What is not used is the beginning of the next input.
  Step read(std::string_view input);
  // Where the next bytes of a frame's payload may be put instead of into an input, when the input
  // is used up: filled(n) says that n of them are there. Empty between frames.
  std::span<char> room();
  void filled(std::size_t bytes);

  Message take_message();                            // after Event::message
  const std::string& control() { return control_; }  // the payload, after one of the others

 private:
  void begin_frame(const FrameHead& head);
  Event end_frame();

  Role self_;
  std::uint64_t max_message_;
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
