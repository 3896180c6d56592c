#include "net/exchange.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/str.h"
#include "net/conversation.h"
#include "net/error_status.h"
#include "net/handshake.h"

namespace caisson::net {

namespace {

constexpr std::uint64_t kFirstReserve = 1u << 20;
constexpr std::size_t kLargeAnswer = 64u << 10;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

[[noreturn]] void too_large(std::uint64_t limit) {
  throw Error(ErrorCode::payload_too_large,
              str("the request body is larger than ", limit, " bytes"));
}

}  // namespace

void ServerExchange::set_route(Router::Match match) {
  match_ = std::move(match);
  max_body_ = match_.route->options.max_body;
}

const std::string& ServerExchange::param(std::string_view name) const {
  for (const auto& [key, value] : match_.params) {
    if (key == name) return value;
  }
  throw Error(ErrorCode::internal_error, str("the route has no parameter ", name));
}

void ServerExchange::give_up(std::string_view why) {
  broken_ = true;
  throw Error(ErrorCode::timeout, std::string(why));
}

// A client that waits for leave to send its body gets it when somebody wants to read it.
Task<void> ServerExchange::invite_body() {
  if (std::exchange(invited_, true)) co_return;
  const std::string* expect = request_.find("expect");
  if (expect == nullptr || request_.minor_version == 0 || !stream_.buffered().empty()) co_return;
  std::array<std::string_view, 3> pieces = {kContinue};
  co_await send(pieces);
}

std::size_t ServerExchange::parse_piece(std::string_view input, std::string& body) {
  try {
    return parser_.parse_body(input, body);
  } catch (const Error&) {
    keep_alive_ = false;  // where the next request begins is anybody's guess
    throw;
  }
}

// Appends at least one byte of the body, unless it is done then.
Task<void> ServerExchange::read_piece(std::string& body, std::uint64_t limit) {
  const std::size_t before = body.size();
  while (!parser_.body_done() && body.size() == before) {
    const std::string_view input = stream_.buffered();
    std::size_t used = 0;
    if (!input.empty()) {
      used = parse_piece(input, body);
      stream_.consume(used);
    }
    if (used == 0) {
      if (stream_.full()) {
        keep_alive_ = false;
        throw MalformedMessage("a chunk header is too long");
      }
      const bool more = co_await stream_.fill();
      if (!more && stream_.expired()) give_up("the client did not send its body in time");
      if (!more) give_up("the client closed the connection before the end of its body");
    }
  }
  body_read_ += body.size() - before;
  if (body_read_ > limit) too_large(limit);
}

// For the next piece, which has at most as many bytes as are buffered. A promise of many bytes is
// not yet worth their memory.
void ServerExchange::make_room(std::string& body) {
  const std::uint64_t length = request_.content_length.value_or(kUnlimited);
  const std::uint64_t needed = std::min<std::uint64_t>(length, body.size() + stream_.capacity());
  if (needed <= body.capacity()) return;
  const std::uint64_t step = std::max<std::uint64_t>(
      2 * body.capacity(), std::min(request_.content_length.value_or(0), kFirstReserve));
  const std::uint64_t wanted = std::min(length, std::max(needed, step));
  if (!body_held_.resize(wanted)) {
    throw Error(ErrorCode::busy,
                "the daemon has no room for the body of this request; try again in a moment");
  }
  body.reserve(wanted);
}

Task<std::string> ServerExchange::read_body(std::uint64_t limit) {
  limit = std::min(limit, max_body_);
  if (request_.content_length.value_or(0) > limit) too_large(limit);
  std::string body;
  if (parser_.body_done()) co_return body;
  co_await invite_body();
  stream_.deadline = Clock::now() + config_.body_deadline;
  while (!parser_.body_done()) {
    make_room(body);
    co_await read_piece(body, limit);
  }
  stream_.deadline = Deadline::max();
  co_return body;
}

Task<std::optional<std::string>> ServerExchange::read_some() {
  if (request_.content_length.value_or(0) > max_body_) too_large(max_body_);
  if (parser_.body_done()) co_return std::nullopt;
  co_await invite_body();
  std::string piece;
  stream_.deadline = Clock::now() + config_.body_deadline;
  co_await read_piece(piece, max_body_);
  stream_.deadline = Deadline::max();
  if (piece.empty()) co_return std::nullopt;
  co_return piece;
}

// What is left of the body decides whether the connection can go on: when it is here already it is
// dropped, and otherwise nobody waits for it.
void ServerExchange::end_request() {
  if (!request_.keep_alive || stopping_) keep_alive_ = false;
  std::string dropped;
  while (keep_alive_ && !parser_.body_done()) {
    const std::string_view input = stream_.buffered();
    std::size_t used = 0;
    try {
      if (!input.empty()) used = parser_.parse_body(input, dropped);
    } catch (const Error&) {
      used = 0;
    }
    if (used == 0) keep_alive_ = false;
    stream_.consume(used);
  }
}

void ServerExchange::begin_answer() {
  if (state_ != State::unanswered) {
    throw Error(ErrorCode::internal_error, "a request was answered twice");
  }
  if (broken_) give_up("the client is gone");
  end_request();
}

Framing ServerExchange::framing_of(int status) const {
  return status == 204 || status == 304 || status < 200 ? Framing::no_body : Framing::length;
}

Task<void> ServerExchange::send(std::array<std::string_view, 3> pieces) {
  const bool sent = co_await stream_.write(pieces, config_.write_deadline, &answer_held_);
  answer_held_.set(0);
  if (!sent && stream_.expired()) give_up("the client does not take its answer");
  if (!sent) give_up("the client is gone, or there is no room for what it does not take");
}

Task<void> ServerExchange::reply(Response response) {
  begin_answer();
  // What can be asked for again is not begun without room for it.
  if (request_.method == "GET" && response.body.size() > kLargeAnswer &&
      !answer_held_.resize(response.body.size())) {
    response = error_response(503, ErrorCode::busy,
                              "the daemon has no room for this answer; try again in a moment");
  }
  refusals_.note(response.status, peer_, request_, response.reason);
  framing_ = framing_of(response.status);
  const bool bare = framing_ == Framing::no_body || request_.method == "HEAD";
  std::string head;
  head.reserve(512);
  const ResponseHead fields{.status = response.status,
                            .content_type = response.content_type,
                            .headers = response.headers,
                            .framing = framing_,
                            .length = response.body.size(),
                            .minor_version = request_.minor_version,
                            .keep_alive = keep_alive_};
  append_head(head, fields);
  state_ = State::answered;
  std::array<std::string_view, 3> pieces = {head};
  if (!bare) pieces[1] = response.body;
  co_await send(pieces);
}

Task<void> ServerExchange::begin(int status, std::string content_type,
                                 std::vector<Header> headers) {
  begin_answer();
  framing_ = framing_of(status);
  if (framing_ == Framing::length) {
    framing_ = request_.minor_version == 0 ? Framing::until_close : Framing::chunked;
  }
  if (framing_ == Framing::until_close) keep_alive_ = false;
  std::string head;
  const ResponseHead fields{.status = status,
                            .content_type = content_type,
                            .headers = headers,
                            .framing = framing_,
                            .minor_version = request_.minor_version,
                            .keep_alive = keep_alive_};
  append_head(head, fields);
  state_ = State::streaming;
  std::array<std::string_view, 3> pieces = {head};
  co_await send(pieces);
}

Task<void> ServerExchange::write(std::string chunk) {
  if (state_ != State::streaming) {
    throw Error(ErrorCode::internal_error, "a part of an answer outside of begin() and end()");
  }
  if (broken_) give_up("the client is gone");
  // An empty chunk would end the body.
  if (chunk.empty() || request_.method == "HEAD" || framing_ == Framing::no_body) co_return;
  std::array<std::string_view, 3> pieces = {chunk};
  std::array<char, 20> size{};
  if (framing_ == Framing::chunked) {
    char* end = std::to_chars(size.data(), size.data() + 16, chunk.size(), 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    pieces = {std::string_view(size.data(), static_cast<std::size_t>(end - size.data())), chunk,
              "\r\n"};
  }
  co_await send(pieces);
}

Task<void> ServerExchange::end() {
  if (state_ != State::streaming) {
    throw Error(ErrorCode::internal_error, "the end of an answer that was not begun");
  }
  state_ = State::answered;
  if (framing_ != Framing::chunked || request_.method == "HEAD") co_return;
  std::array<std::string_view, 3> pieces = {"0\r\n\r\n"};
  co_await send(pieces);
}

Task<WebSocket> ServerExchange::accept_websocket(WebSocketOptions options) {
  if (!match_.route->options.websocket) {
    throw Error(ErrorCode::internal_error, "the route is not a websocket's");
  }
  if (stopping_) throw Error(ErrorCode::runtime_unavailable, "the daemon is shutting down");
  const std::vector<Header> headers = accept_headers(request_, options.subprotocol);
  options.message_deadline = config_.body_deadline;
  begin_answer();
  std::string head;
  append_head(head, {.status = 101, .headers = headers, .framing = Framing::no_body});
  state_ = State::answered;
  keep_alive_ = false;
  std::array<std::string_view, 3> pieces = {head};
  co_await send(pieces);
  stream_.share()->set_known(true);
  conversation_ =
      std::make_shared<Conversation>(stream_.shared_from_this(), Role::server, std::move(options));
  conversation_->start();
  // A stop that came while the answer was sent found nothing to close.
  if (stopping_) conversation_->begin_close({.code = CloseCode::going_away});
  co_return WebSocket(conversation_);
}

}  // namespace caisson::net
