#include "net/message_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <limits>
#include <variant>

#include "base/str.h"
#include "base/text.h"
#include "net/target.h"

namespace caisson::net {

namespace http = boost::beast::http;
namespace beast = boost::beast;

namespace {

// Turns the callbacks of Beast's incremental parser into a head and a string.
template <bool is_request>
class Parser final : public http::basic_parser<is_request> {
 public:
  Parser() {
    this->header_limit(std::numeric_limits<std::uint32_t>::max());  // the buffer is the limit
    this->body_limit(boost::none);                                  // counted by the reader
    this->eager(true);
  }

  void set_body(std::string* body) { body_ = body; }
  MessageHead take_head() { return std::move(head_); }

 private:
  using Code = beast::error_code;
  using Text = beast::string_view;

  void on_request_impl(http::verb, Text method, Text target, int version, Code&) override {
    head_.method = method;
    head_.target = target;
    head_.minor_version = version - 10;
  }
  void on_response_impl(int status, Text, int version, Code&) override {
    head_.status = status;
    head_.minor_version = version - 10;
  }
  void on_field_impl(http::field, Text name, Text value, Code&) override {
    if (!head_done_) head_.headers.push_back({std::string(name), std::string(value)});
  }
  void on_header_impl(Code&) override { head_done_ = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, Code&) override {}
  std::size_t on_body_impl(Text piece, Code&) override {
    body_->append(piece.data(), piece.size());
    return piece.size();
  }
  void on_chunk_header_impl(std::uint64_t, Text extension, Code& error) override {
    // Beast lets a quoted extension contain a line feed; another reader may end the line there.
    if (extension.find('\n') != Text::npos) error = http::error::bad_chunk_extension;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, Text piece, Code&) override {
    body_->append(piece.data(), piece.size());
    return piece.size();
  }
  void on_finish_impl(Code&) override {}

  MessageHead head_;
  bool head_done_ = false;
  std::string* body_ = nullptr;
};

[[noreturn]] void refuse(std::string_view why) {
  throw MalformedMessage(why);
}

std::string_view reason(const beast::error_code& error) {
  if (error == http::error::bad_method) return "bad method";
  if (error == http::error::bad_target) return "bad request target";
  if (error == http::error::bad_version) return "only HTTP/1.0 and HTTP/1.1 are understood";
  if (error == http::error::bad_field) return "bad header name";
  if (error == http::error::bad_value) return "bad header value";
  if (error == http::error::bad_content_length) return "bad Content-Length";
  if (error == http::error::multiple_content_length) return "more than one Content-Length";
  if (error == http::error::bad_transfer_encoding) return "bad Transfer-Encoding";
  if (error == http::error::bad_chunk || error == http::error::bad_chunk_extension) {
    return "bad chunk";
  }
  if (error == http::error::partial_message) return "it ends too early";
  return "bad framing";
}

std::size_t count_headers(const std::vector<Header>& headers, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(headers.begin(), headers.end(),
                    [&](const Header& header) { return same_name(header.name, name); }));
}

// What Beast's parser passes and a strict reader does not: repeated lengths that agree, and codings
// that it ignores although the body would be read in another way by somebody else.
void check_framing(const MessageHead& head) {
  const std::size_t lengths = count_headers(head.headers, "content-length");
  const std::size_t codings = count_headers(head.headers, "transfer-encoding");
  if (lengths + codings > 1) refuse("Content-Length and Transfer-Encoding more than once");
  const std::string* length = find_header(head.headers, "content-length");
  if (length != nullptr && length->find_first_not_of("0123456789") != std::string::npos) {
    refuse("bad Content-Length");
  }
  const std::string* coding = find_header(head.headers, "transfer-encoding");
  if (coding == nullptr) return;
  if (to_lower(*coding) != "chunked") refuse("the only Transfer-Encoding is chunked");
  if (head.minor_version == 0) refuse("Transfer-Encoding in HTTP/1.0");
}

}  // namespace

MalformedMessage::MalformedMessage(std::string_view why)
    : Error(ErrorCode::validation_error, str("malformed HTTP message: ", why)) {}

std::optional<std::size_t> HeadScanner::scan(std::string_view bytes) {
  for (;;) {
    const std::size_t feed = bytes.find('\n', scanned_);
    if (feed == std::string_view::npos) {
      scanned_ = bytes.size();
      return std::nullopt;
    }
    scanned_ = feed;
    if (feed == 0 || bytes[feed - 1] != '\r') {
      refuse("a line feed without a carriage return");
    }
    if (feed - 1 == line_start_) return feed + 1;
    if (feed + 1 == bytes.size()) return std::nullopt;
    if (bytes[feed + 1] == ' ' || bytes[feed + 1] == '\t') {
      refuse("a header folded over two lines");
    }
    line_start_ = feed + 1;
    scanned_ = feed + 1;
  }
}

struct MessageParser::Implementation {
  explicit Implementation(Kind which) : kind(which) {}

  template <bool is_request>
  MessageHead parse_head(std::string_view bytes, bool has_body) {
    auto& parser = parsers.emplace<Parser<is_request>>();
    parser.skip(!has_body);
    // A body byte too many would be taken for the body, so the head alone goes in.
    beast::error_code error;
    const std::size_t used = parser.put({bytes.data(), bytes.size()}, error);
    if (error) refuse(reason(error));
    if (used != bytes.size() || !parser.is_header_done()) refuse("bad framing");
    MessageHead head = parser.take_head();
    check_framing(head);
    if (const auto length = parser.content_length()) head.content_length = *length;
    head.chunked = parser.chunked();
    head.keep_alive = parser.keep_alive();
    return head;
  }

  template <typename Function>
  auto with_parser(Function function) {
    if (kind == Kind::request) return function(std::get<Parser<true>>(parsers));
    return function(std::get<Parser<false>>(parsers));
  }

  Kind kind;
  std::variant<std::monostate, Parser<true>, Parser<false>> parsers;
};

MessageParser::MessageParser(Kind kind) : implementation_(std::make_unique<Implementation>(kind)) {}
MessageParser::~MessageParser() = default;

MessageHead MessageParser::parse_head(std::string_view head) {
  if (implementation_->kind == Kind::request) return implementation_->parse_head<true>(head, true);
  return implementation_->parse_head<false>(head, true);
}

MessageHead MessageParser::parse_head_without_body(std::string_view head) {
  return implementation_->parse_head<false>(head, false);
}

std::size_t MessageParser::parse_body(std::string_view input, std::string& body) {
  return implementation_->with_parser([&](auto& parser) -> std::size_t {
    beast::error_code error;
    parser.set_body(&body);
    const std::size_t used = parser.put({input.data(), input.size()}, error);
    parser.set_body(nullptr);
    if (error && error != http::error::need_more) refuse(reason(error));
    return used;
  });
}

bool MessageParser::body_done() const {
  return implementation_->with_parser([](auto& parser) { return parser.is_done(); });
}

void MessageParser::finish_at_eof() {
  implementation_->with_parser([](auto& parser) {
    beast::error_code error;
    parser.put_eof(error);
    if (error) refuse(reason(error));
  });
}

Request make_request(MessageHead head) {
  const std::size_t hosts = count_headers(head.headers, "host");
  if (hosts > 1) refuse("more than one Host");
  if (hosts == 0 && head.minor_version == 1) {
    refuse("HTTP/1.1 without Host");
  }
  Target target = parse_target(head.method, head.target);
  Request request;
  request.method = std::move(head.method);
  request.target = std::move(head.target);
  request.path = std::move(target.path);
  request.query = std::move(target.query);
  request.target_authority = std::move(target.authority);
  request.headers = std::move(head.headers);
  request.minor_version = head.minor_version;
  request.content_length = head.content_length;
  request.chunked = head.chunked;
  request.keep_alive = head.keep_alive;
  return request;
}

}  // namespace caisson::net
