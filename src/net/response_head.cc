#include "net/response_head.h"

#include <array>
#include <ctime>

#include "base/error.h"
#include "base/str.h"
#include "net/error_status.h"

namespace caisson::net {

namespace {

void append_header(std::string& out, std::string_view name, std::string_view value) {
  if (value.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos ||
      name.find_first_of(std::string_view("\r\n\0: ", 5)) != std::string_view::npos) {
    throw Error(ErrorCode::internal_error, str("answer header ", name, " has a line break"));
  }
  out.append(name).append(": ").append(value).append("\r\n");
}

// Made once a second; the names of days and months are English whatever the locale.
std::string_view date() {
  static thread_local std::time_t made_at = 0;
  static thread_local std::array<char, 40> text{};
  static thread_local std::size_t size = 0;
  const std::time_t now = std::time(nullptr);
  if (now != made_at) {
    std::tm fields{};
    ::gmtime_r(&now, &fields);
    size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &fields);
    made_at = now;
  }
  return {text.data(), size};
}

}  // namespace

void append_head(std::string& out, const ResponseHead& head) {
  out.append("HTTP/1.1 ").append(std::to_string(head.status)).append(" ");
  out.append(reason_phrase(head.status)).append("\r\n");
  append_header(out, "Date", date());
  if (!head.content_type.empty() && head.framing != Framing::no_body) {
    append_header(out, "Content-Type", head.content_type);
  }
  if (head.framing == Framing::length) {
    append_header(out, "Content-Length", std::to_string(head.length));
  } else if (head.framing == Framing::chunked) {
    append_header(out, "Transfer-Encoding", "chunked");
  }
  if (!head.keep_alive) {
    append_header(out, "Connection", "close");
  } else if (head.minor_version == 0) {
    append_header(out, "Connection", "keep-alive");
  }
  if (find_header(head.headers, "cache-control") == nullptr) {
    append_header(out, "Cache-Control", "no-store");
  }
  append_header(out, "X-Content-Type-Options", "nosniff");
  append_header(out, "Referrer-Policy", "no-referrer");
  append_header(out, "Content-Security-Policy",
                head.content_type.starts_with("text/html")
                    ? "default-src 'self'; base-uri 'none'; form-action 'self'; "
                      "frame-ancestors 'none'; object-src 'none'"
                    : "default-src 'none'; frame-ancestors 'none'");
  for (const Header& header : head.headers) append_header(out, header.name, header.value);
  out.append("\r\n");
}

}  // namespace caisson::net
