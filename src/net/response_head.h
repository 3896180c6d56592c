#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

namespace caisson::net {

// How the end of an answer's body is told.
enum class Framing { length, chunked, until_close, no_body };

struct ResponseHead {
  int status = 200;
  std::string_view content_type;
  const std::vector<Header>& headers;
  Framing framing = Framing::length;
  std::uint64_t length = 0;
  int minor_version = 1;
  bool keep_alive = true;
};

// The bytes of an answer up to its body. The headers that protect a browser's user are put here and
// nowhere else; none of them tells a version. Throws internal_error for a header that would end its
// line.
void append_head(std::string& out, const ResponseHead& head);

}  // namespace caisson::net
