#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace caisson {

// UTF-8 as RFC 3629 has it: no surrogates, no longer spelling than needed, nothing above U+10FFFF.
bool is_utf8(std::string_view bytes);

// Text with each maximal part that is not UTF-8 replaced by one U+FFFD.
std::string decode_utf8(std::string_view bytes);

// As decode_utf8(), without a copy of what is UTF-8 already.
std::string repair_utf8(std::string bytes);

// How many trailing bytes of `bytes` begin a character that is not complete yet (0 to 3).
std::size_t incomplete_utf8_tail(std::string_view bytes);

// Whether bytes that come in pieces are UTF-8. A fault is found at its first byte.
class Utf8Validator {
 public:
  // False: what came so far is the beginning of no text.
  bool feed(std::string_view bytes);
  // No character is half way.
  bool complete() const { return half_.empty(); }

 private:
  std::string half_;  // the character that is half way
};

}  // namespace caisson
