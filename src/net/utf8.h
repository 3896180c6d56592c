#pragma once
#include <string_view>

namespace caisson::net {

// Whether bytes that come in pieces are UTF-8 (RFC 3629: no surrogates, no longer spelling than
// needed, nothing above U+10FFFF). A fault is found at its first byte.
class Utf8Validator {
 public:
  // False: what came so far is the beginning of no text.
  bool feed(std::string_view bytes);
  // No character is half way.
  bool complete() const { return missing_ == 0; }

 private:
  bool feed_byte(unsigned char byte);

  unsigned missing_ = 0;        // bytes of the character that is half way
  unsigned char least_ = 0x80;  // what the next of them may be
  unsigned char most_ = 0xBF;
};

}  // namespace caisson::net
