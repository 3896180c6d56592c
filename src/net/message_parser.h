#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/http.h"

namespace caisson::net {

// A message that is not understood beyond doubt.
class MalformedMessage : public Error {
 public:
  explicit MalformedMessage(std::string_view why);
};

// Finds the end of a head while its bytes come in, and refuses what parsers are known to disagree
// about: a line feed without its carriage return, and a header folded over two lines.
class HeadScanner {
 public:
  // The length of the head with its empty line, or nullopt when there is more to come. `bytes` has
  // grown at its end since the last call. Throws MalformedMessage.
  std::optional<std::size_t> scan(std::string_view bytes);

 private:
  std::size_t scanned_ = 0;
  std::size_t line_start_ = 0;
};

struct MessageHead {
  std::string method;  // of a request
  std::string target;  // of a request
  int status = 0;      // of a response
  int minor_version = 1;
  std::vector<Header> headers;
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
};

// One HTTP/1 message after another: a head, then its body in pieces. Framing that is not beyond
// doubt throws MalformedMessage.
class MessageParser {
 public:
  enum class Kind { request, response };

  explicit MessageParser(Kind kind);
  MessageParser(const MessageParser&) = delete;
  MessageParser& operator=(const MessageParser&) = delete;
  ~MessageParser();

  // `head` is what a HeadScanner found. Begins a new message, whatever the last one came to.
  MessageHead parse_head(std::string_view head);
  // The answer to HEAD has no body, whatever its head says.
  MessageHead parse_head_without_body(std::string_view head);

  // Decodes body bytes onto the end of `body`, at most as many as `input` has, and returns how much
  // of the input is used up. Zero: a larger piece is needed.
  std::size_t parse_body(std::string_view input, std::string& body);
  bool body_done() const;
  // The peer has closed: the end of a body without a length. Throws when one with a length is cut.
  void finish_at_eof();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// The request that a head describes. Throws validation_error, which a MalformedMessage is, too.
Request make_request(MessageHead head);

}  // namespace caisson::net
