#include "net/request_head.h"

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::net {

namespace {

void check_line(std::string_view text) {
  if (text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
    throw Error(ErrorCode::validation_error,
                str("a request cannot carry \"", printable(text), "\": it has a line break"));
  }
}

}  // namespace

std::string request_head(const ClientRequest& request, std::string_view host,
                         std::string_view token) {
  check_line(request.method);
  check_line(request.target);
  check_line(token);
  std::string head = str(request.method, " ", request.target, " HTTP/1.1\r\nHost: ", host, "\r\n");
  if (!token.empty()) head += str("Authorization: Bearer ", token, "\r\n");
  const bool has_body = request.source || !request.body.empty();
  if (has_body && find_header(request.headers, "content-type") == nullptr) {
    head += "Content-Type: application/json\r\n";
  }
  for (const Header& header : request.headers) {
    check_line(header.name);
    check_line(header.value);
    head += str(header.name, ": ", header.value, "\r\n");
  }
  if (request.source) {
    head += "Transfer-Encoding: chunked\r\n";
  } else if (has_body || request.method == "POST" || request.method == "PUT") {
    head += str("Content-Length: ", request.body.size(), "\r\n");
  }
  return head + "\r\n";
}

}  // namespace caisson::net
