#include "net/connection.h"

#include <array>
#include <boost/system/system_error.hpp>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "net/conversation.h"
#include "net/error_status.h"
#include "net/handshake.h"

namespace caisson::net {

namespace {

constexpr auto kIdleInACrowd = std::chrono::seconds(5);

std::string whole_answer(const Response& response) {
  std::string bytes;
  const ResponseHead head{.status = response.status,
                          .content_type = response.content_type,
                          .headers = response.headers,
                          .length = response.body.size(),
                          .keep_alive = false};
  append_head(bytes, head);
  return bytes + response.body;
}

bool is_json(const std::string* content_type) {
  if (content_type == nullptr) return false;
  const std::string_view type = std::string_view(*content_type).substr(0, content_type->find(';'));
  return to_lower(trim(type)) == "application/json";
}

// The answer to a request that has no route: no such path, or not with this method.
Response no_route(const Request& request, const Router::Match& match) {
  const std::string& method = request.method;
  const bool never = method == "OPTIONS" || method == "TRACE" || method == "CONNECT";
  if (match.allow.empty() && !never) {
    return error_response(
        404, ErrorCode::not_found,
        str("there is nothing at ",
            printable(std::string_view(request.target).substr(0, request.target.find('?')))));
  }
  Response response = error_response(405, ErrorCode::method_not_allowed,
                                     str("method ", printable(method), " is not allowed here"));
  response.headers.push_back({"Allow", match.allow});
  return response;
}

// What can be said against a request before its body is read.
std::optional<Response> refuse_body(const Request& request, const RouteOptions& options) {
  if (request.content_length.value_or(0) > options.max_body) {
    return error_response(413, ErrorCode::payload_too_large,
                          str("the request body is larger than ", options.max_body, " bytes"));
  }
  if (request.has_body() && options.body == BodyKind::json &&
      !is_json(request.find("content-type"))) {
    return error_response(415, ErrorCode::unsupported_media_type,
                          "the body must have Content-Type: application/json");
  }
  const std::string* expect = request.find("expect");
  if (expect != nullptr && to_lower(*expect) != "100-continue") {
    return error_response(417, ErrorCode::validation_error,
                          "the only expectation understood is 100-continue");
  }
  return std::nullopt;
}

}  // namespace

std::string busy_answer() {
  return whole_answer(
      error_response(503, ErrorCode::busy,
                     "the daemon has too many connections; try again in a moment, or raise "
                     "caisson.max_connections"));
}

Connection::Connection(Stream::Socket socket, std::shared_ptr<ConnectionContext> context, Peer peer,
                       std::shared_ptr<Share> share, Charge head)
    : context_(std::move(context)),
      peer_(std::move(peer)),
      head_(std::move(head)),
      stream_(std::make_shared<Stream>(std::move(socket), context_->config.max_head,
                                       std::move(share))) {
  stream_->deadline = Clock::now() + context_->config.head_deadline;
}

Task<void> Connection::serve(std::shared_ptr<Connection> self) {
  bool more = true;
  while (more) more = co_await self->serve_one();
  self->stream_->close();
}

void Connection::check_deadline(Deadline now) {
  // Who keeps a connection for later makes way for those who wait for one now.
  const bool in_the_way = idle_ && context_->crowded && now - idle_since_ >= kIdleInACrowd;
  if ((stream_->deadline <= now || in_the_way) && !stream_->expired()) stream_->expire();
  if (is_websocket()) exchange_->conversation()->check(now);
}

void Connection::stop() {
  if (is_websocket()) {
    exchange_->conversation()->begin_close(
        {.code = CloseCode::going_away, .text = context_->config.farewell});
  } else if (!busy_) {
    stream_->expire();
  }
}

void Connection::answer_now(const Response& response) {
  stream_->write_now(whole_answer(response));
}

// The length of the next head in the buffer; 0 when there will be none. Throws validation_error.
Task<std::size_t> Connection::read_head() {
  HeadScanner scanner;
  const ServerConfig& config = context_->config;
  bool begun = first_ || !stream_->buffered().empty();
  const Deadline now = Clock::now();
  stream_->deadline = now + (begun ? config.head_deadline : config.idle_deadline);
  idle_ = !begun;
  idle_since_ = now;
  first_ = false;
  for (;;) {
    if (const auto length = scanner.scan(stream_->buffered())) {
      stream_->deadline = Deadline::max();
      co_return *length;
    }
    if (stream_->full()) {
      throw Error(ErrorCode::payload_too_large,
                  str("the head of the request is larger than ", config.max_head, " bytes"));
    }
    const bool more = co_await stream_->fill();
    idle_ = false;
    if (!more) co_return 0;
    if (!std::exchange(begun, true)) stream_->deadline = Clock::now() + config.head_deadline;
  }
}

Task<bool> Connection::serve_one() {
  std::optional<Response> refusal;
  try {
    const std::size_t length = co_await read_head();
    if (length == 0) {
      if (stream_->expired() && !stream_->buffered().empty() && !context_->stopping) {
        answer_now(error_response(408, ErrorCode::timeout,
                                  "the head of the request did not arrive in time"));
      }
      co_return false;
    }
    Request request = make_request(parser_.parse_head(stream_->buffered().substr(0, length)));
    stream_->consume(length);
    exchange_.emplace(*stream_, parser_, context_->config, peer_, context_->refusals,
                      context_->stopping, std::move(request));
  } catch (const Error& error) {
    const bool head = error.code() == ErrorCode::payload_too_large;
    refusal = error_response(head ? 431 : status_of(error.code()), error.code(), error.what());
  }
  if (refusal) {
    co_await refuse(std::move(*refusal));
    co_return false;
  }
  busy_ = true;
  const bool more = co_await answer(*exchange_);
  const bool broken = exchange_->broken() || (is_websocket() && exchange_->conversation()->lost());
  exchange_.reset();
  busy_ = false;
  if (more && !context_->stopping) co_return true;
  if (!broken) co_await stream_->linger(context_->config.linger_deadline);
  co_return false;
}

// Judges, routes and answers one request. True: the next one may come.
Task<bool> Connection::answer(ServerExchange& exchange) {
  const Request& request = exchange.request();
  Router::Match match = context_->router.find(request);
  const bool needs_token = match.route == nullptr || match.route->options.needs_token;
  std::optional<Response> refusal;
  const std::string_view unforgeable =
      match.route == nullptr ? "" : std::string_view(match.route->options.unforgeable_header);
  const Judgement judged = judge(request, context_->guard, peer_, needs_token, unforgeable);
  exchange.set_trust(judged.trust);
  stream_->share()->set_known(exchange.peer().is_known());
  if (context_->crowded) exchange.set_last();
  if (judged.refusal) {
    exchange.set_last();
    refusal = error_response(judged.refusal->status, judged.refusal->code, judged.refusal->message);
  } else if (match.route == nullptr) {
    refusal = no_route(request, match);
  } else {
    refusal = refuse_body(request, match.route->options);
    const RouteOptions& options = match.route->options;
    if (!refusal && options.websocket && !options.judges_handshake) {
      refusal = refuse_handshake(request);
    }
  }
  std::exception_ptr failure;
  try {
    if (refusal) {
      co_await exchange.reply(std::move(*refusal));
    } else {
      const Handler& handler = match.route->handler;
      exchange.set_route(std::move(match));
      co_await handler(exchange);
      if (exchange.unanswered() && stream_->at_end()) co_return false;
      if (exchange.unanswered()) throw std::logic_error("the handler did not answer");
      if (!exchange.answered()) throw std::logic_error("the handler did not end its answer");
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure && !exchange.conversation()) co_return exchange.keeps_alive();
  const auto state = co_await boost::asio::this_coro::cancellation_state;
  if (state.cancelled() != boost::asio::cancellation_type::none) {
    // Nothing can be awaited any more.
    if (exchange.conversation()) exchange.conversation()->cut();
    if (exchange.unanswered()) {
      answer_now(
          error_response(503, ErrorCode::runtime_unavailable, "the daemon is shutting down"));
    }
    co_return false;
  }
  if (exchange.conversation()) {
    co_await end_websocket(exchange, std::move(failure));
    co_return false;
  }
  co_return co_await answer_failure(exchange, std::move(failure));
}

// The handler has left its conversation, or could not go on with it.
Task<void> Connection::end_websocket(ServerExchange& exchange, std::exception_ptr failure) {
  CloseReason reason;
  if (failure) reason = failure_reason(failure, exchange.request());
  // The server may be stopped meanwhile, and the peer need not be waited for.
  try {
    co_await Conversation::finish(exchange.conversation(), std::move(reason));
  } catch (const boost::system::system_error&) {
    exchange.conversation()->cut();
  }
}

Task<bool> Connection::answer_failure(ServerExchange& exchange, std::exception_ptr failure) {
  if (exchange.broken()) {
    if (exchange.unanswered() && stream_->expired()) {
      answer_now(error_response(408, ErrorCode::timeout,
                                "the body of the request did not arrive in time"));
    }
    co_return false;
  }
  Response response = failure_response(failure, exchange.request());
  // An answer that has begun cannot be taken back: it is cut, and the client sees that it is.
  if (!exchange.unanswered()) co_return false;
  try {
    co_await exchange.reply(std::move(response));
  } catch (const Error&) {
    co_return false;  // the client is gone
  }
  co_return exchange.keeps_alive();
}

// Answers a request that could not be understood.
Task<void> Connection::refuse(Response response) {
  const std::string bytes = whole_answer(response);
  const std::array<std::string_view, 1> pieces = {bytes};
  const bool sent = co_await stream_->write(pieces, context_->config.write_deadline);
  if (sent) co_await stream_->linger(context_->config.linger_deadline);
}

}  // namespace caisson::net
