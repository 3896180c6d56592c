#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace caisson::session {

// What a caller sees of a captured stream, as LangBot shows it: text with U+FFFD for what is no
// UTF-8, without white space at both ends, and a note of what did not fit into `limit` bytes. A
// character that the limit cut in two is left out rather than shown as broken.
std::string shown_output(std::string_view bytes, std::uint64_t discarded, std::size_t limit);

// The same text piece by piece, as it comes: a character that is not complete yet waits for its
// rest.
class TextStream {
 public:
  std::string add(std::string_view bytes);
  std::string finish();  // what is left can only be broken

 private:
  std::string rest_;
};

}  // namespace caisson::session
