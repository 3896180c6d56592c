#include "session/output.h"

#include <utility>

#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"

namespace caisson::session {

std::string shown_output(std::string_view bytes, std::uint64_t discarded, std::size_t limit) {
  if (discarded > 0) bytes.remove_suffix(incomplete_utf8_tail(bytes));
  std::string text(trim(decode_utf8(bytes)));
  if (discarded > 0) {
    text += str("\n... [raw output clipped at ", limit, " bytes, ", discarded, " bytes discarded]");
  }
  return text;
}

std::string TextStream::add(std::string_view bytes) {
  std::string all = std::exchange(rest_, {});
  all += bytes;
  const std::size_t tail = incomplete_utf8_tail(all);
  rest_ = all.substr(all.size() - tail);
  all.resize(all.size() - tail);
  return decode_utf8(all);
}

std::string TextStream::finish() {
  return decode_utf8(std::exchange(rest_, {}));
}

}  // namespace caisson::session
