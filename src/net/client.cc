#include "net/client.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "net/address.h"
#include "net/conversation.h"
#include "net/handshake.h"
#include "net/message_parser.h"
#include "net/request_head.h"
#include "net/stream.h"

namespace caisson::net {

namespace asio = boost::asio;

namespace {

using Endpoint = asio::generic::stream_protocol::endpoint;
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

bool may_be_repeated(const ClientRequest& request) {
  return !request.source && (request.method == "GET" || request.method == "HEAD");
}

}  // namespace

class Client::Implementation : public std::enable_shared_from_this<Implementation> {
 public:
  Implementation(asio::any_io_executor executor, ClientConfig config)
      : executor_(std::move(executor)),
        config_(std::move(config)),
        address_(parse_address(config_.address)),
        timer_(executor_) {}

  Task<Response> request(ClientRequest request);
  Task<WebSocketAnswer> open_websocket(WebSocketRequest request);
  Task<Response> open(ClientRequest request);
  Task<std::optional<std::string>> read_some();

  // After a failure nobody knows where the next answer would begin.
  void close() {
    timer_.cancel();
    ++watch_number_;
    if (stream_) stream_->close();
    stream_.reset();
    open_ = false;
  }

 private:
  Task<Response> open_unguarded(const ClientRequest& request);
  Task<std::optional<std::string>> read_unguarded();
  Task<void> connect();
  Task<std::vector<Endpoint>> resolve();
  Task<bool> send(const ClientRequest& request);
  Task<bool> send_source(const ClientRequest& request);
  Task<std::optional<Response>> try_to_open(const ClientRequest& request);
  Task<std::optional<Response>> read_head(bool has_body);
  void finish();
  [[noreturn]] void fail();
  Error malformed(const MalformedMessage& cause) const;

  void set_deadline(Clock::duration patience);
  void watch_deadline();

  asio::any_io_executor executor_;
  ClientConfig config_;
  Address address_;
  asio::steady_timer timer_;
  unsigned watch_number_ = 0;
  std::shared_ptr<Stream> stream_;
  MessageParser parser_{MessageParser::Kind::response};
  Clock::duration patience_{};
  bool open_ = false;  // the body of an answer is being read
  bool keep_alive_ = false;
};

// The timer is armed once per request; what happens meanwhile only moves the deadline it looks at.
void Client::Implementation::set_deadline(Clock::duration patience) {
  patience_ = patience;
  stream_->deadline = Clock::now() + patience;
  ++watch_number_;
  watch_deadline();
}

void Client::Implementation::watch_deadline() {
  timer_.expires_at(stream_->deadline);
  timer_.async_wait(
      [self = shared_from_this(), number = watch_number_](const boost::system::error_code& error) {
        if (error || number != self->watch_number_ || !self->stream_) return;
        if (self->stream_->deadline <= Clock::now()) return self->stream_->expire();
        self->watch_deadline();
      });
}

void Client::Implementation::finish() {
  open_ = false;
  timer_.cancel();
  ++watch_number_;
  if (!keep_alive_) close();
}

// The parser does not know whose message it reads.
Error Client::Implementation::malformed(const MalformedMessage& cause) const {
  return Error(ErrorCode::protocol_error, str("answer of ", config_.address, ": ", cause.what()));
}

// Says why the stream has nothing more to give.
void Client::Implementation::fail() {
  const bool expired = stream_->expired();
  close();
  if (expired) {
    throw Error(ErrorCode::timeout, str(config_.address, " did not answer in time"));
  }
  throw Error(ErrorCode::protocol_error,
              str(config_.address, " closed the connection before the end of its answer"));
}

Task<std::vector<Endpoint>> Client::Implementation::resolve() {
  std::vector<Endpoint> endpoints;
  if (!address_.unix_path.empty()) {
    endpoints.emplace_back(asio::local::stream_protocol::endpoint(address_.unix_path));
    co_return endpoints;
  }
  const auto port = static_cast<std::uint16_t>(parse_integer(address_.port).value_or(0));
  boost::system::error_code error;
  const auto numeric = asio::ip::make_address(address_.host, error);
  if (!error) {
    endpoints.emplace_back(asio::ip::tcp::endpoint(numeric, port));
    co_return endpoints;
  }
  asio::ip::tcp::resolver resolver(executor_);
  const auto [failure, results] =
      co_await resolver.async_resolve(address_.host, address_.port, kAsTuple);
  if (failure) {
    throw Error(ErrorCode::backend_unavailable,
                str("cannot find the host of ", config_.address, ": ", failure.message()));
  }
  for (const auto& result : results) endpoints.emplace_back(result.endpoint());
  co_return endpoints;
}

Task<void> Client::Implementation::connect() {
  close();
  const std::vector<Endpoint> endpoints = co_await resolve();
  std::string cause = "no address";
  for (const Endpoint& endpoint : endpoints) {
    stream_ = std::make_shared<Stream>(Stream::Socket(executor_), config_.max_head);
    set_deadline(config_.connect_deadline);
    const auto [error] = co_await stream_->socket().async_connect(endpoint, kAsTuple);
    if (!error) {
      boost::system::error_code ignored;
      if (address_.unix_path.empty()) {
        stream_->socket().set_option(asio::ip::tcp::no_delay(true), ignored);
      }
      co_return;
    }
    cause = stream_->expired() ? "it does not answer" : error.message();
  }
  close();
  throw Error(ErrorCode::backend_unavailable,
              str("cannot connect to ", config_.address, ": ", cause,
                  "; start the daemon with \"caisson serve\" or give its address"));
}

Task<bool> Client::Implementation::send(const ClientRequest& request) {
  const std::string head = request_head(request, address_.host_header, config_.token);
  const std::array<std::string_view, 2> pieces = {head, request.body};
  const bool sent = co_await stream_->write(pieces, patience_);
  stream_->deadline = Clock::now() + patience_;
  if (!sent || !request.source) co_return sent;
  co_return co_await send_source(request);
}

Task<bool> Client::Implementation::send_source(const ClientRequest& request) {
  for (;;) {
    const std::optional<std::string> chunk = co_await request.source();
    if (chunk && chunk->empty()) continue;
    // A server that refuses an upload answers and stops reading it.
    if (stream_->stale()) co_return true;
    std::array<char, 16> digits{};
    const std::size_t bytes = chunk ? chunk->size() : 0;
    const char* end = std::to_chars(digits.begin(), digits.end(), bytes, 16).ptr;
    const std::string_view size(digits.data(), static_cast<std::size_t>(end - digits.data()));
    std::array<std::string_view, 4> pieces = {size, "\r\n", "", "\r\n"};
    if (chunk) pieces[2] = *chunk;
    const bool sent = co_await stream_->write(pieces, patience_);
    stream_->deadline = Clock::now() + patience_;
    if (!sent || !chunk) co_return sent;
  }
}

// nullopt: the connection was closed before the first byte of an answer.
Task<std::optional<Response>> Client::Implementation::read_head(bool has_body) {
  HeadScanner scanner;
  for (;;) {
    if (const auto length = scanner.scan(stream_->buffered())) {
      const std::string_view bytes = stream_->buffered().substr(0, *length);
      MessageHead head =
          has_body ? parser_.parse_head(bytes) : parser_.parse_head_without_body(bytes);
      stream_->consume(*length);
      if (head.status / 100 == 1 && head.status != 101) {
        scanner = {};
        continue;
      }
      keep_alive_ = head.keep_alive;
      Response response{.status = head.status, .content_type = "", .headers = head.headers};
      const std::string* type = find_header(response.headers, "content-type");
      if (type != nullptr) response.content_type = *type;
      co_return response;
    }
    if (stream_->full()) throw MalformedMessage("its head is too large");
    const bool more = co_await stream_->fill();
    if (!more && stream_->buffered().empty() && !stream_->expired()) co_return std::nullopt;
    if (!more) fail();
    stream_->deadline = Clock::now() + patience_;
  }
}

Task<std::optional<Response>> Client::Implementation::try_to_open(const ClientRequest& request) {
  set_deadline(request.patience);
  const bool sent = co_await send(request);
  // A server that refuses may answer and close before it has read everything.
  if (!sent && stream_->expired()) fail();
  co_return co_await read_head(request.method != "HEAD");
}

Task<Response> Client::Implementation::open(ClientRequest request) {
  try {
    co_return co_await open_unguarded(request);
  } catch (const MalformedMessage& cause) {
    close();
    throw malformed(cause);
  } catch (...) {
    close();
    throw;
  }
}

Task<Response> Client::Implementation::open_unguarded(const ClientRequest& request) {
  const bool reused = stream_ && !open_ && !stream_->stale();
  if (!reused) co_await connect();
  std::optional<Response> response = co_await try_to_open(request);
  // A kept connection may have been closed for its age just as the request went out.
  if (!response && reused && may_be_repeated(request)) {
    co_await connect();
    response = co_await try_to_open(request);
  }
  if (!response) fail();
  open_ = true;
  if (parser_.body_done()) finish();
  co_return std::move(*response);
}

Task<std::optional<std::string>> Client::Implementation::read_some() {
  if (!open_) co_return std::nullopt;
  try {
    co_return co_await read_unguarded();
  } catch (const MalformedMessage& cause) {
    close();
    throw malformed(cause);
  } catch (...) {
    close();
    throw;
  }
}

Task<std::optional<std::string>> Client::Implementation::read_unguarded() {
  std::string piece;
  while (piece.empty() && !parser_.body_done()) {
    const std::string_view input = stream_->buffered();
    std::size_t used = 0;
    if (!input.empty()) {
      used = parser_.parse_body(input, piece);
      stream_->consume(used);
    }
    if (used > 0) continue;
    if (stream_->full()) throw MalformedMessage("a chunk header is too long");
    const bool more = co_await stream_->fill();
    if (!more && stream_->expired()) fail();
    if (!more) parser_.finish_at_eof();
    stream_->deadline = Clock::now() + patience_;
  }
  if (parser_.body_done()) finish();
  if (piece.empty()) co_return std::nullopt;
  co_return piece;
}

Task<Response> Client::Implementation::request(ClientRequest request) {
  Response response = co_await open(std::move(request));
  for (;;) {
    std::optional<std::string> piece = co_await read_some();
    if (!piece) co_return response;
    if (response.body.size() + piece->size() > config_.max_body) {
      close();
      throw Error(
          ErrorCode::payload_too_large,
          str("the answer of ", config_.address, " is larger than ", config_.max_body, " bytes"));
    }
    if (response.body.empty()) {
      response.body = std::move(*piece);
    } else {
      response.body += *piece;
    }
  }
}

Task<WebSocketAnswer> Client::Implementation::open_websocket(WebSocketRequest request) {
  const std::string key = make_websocket_key();
  ClientRequest upgrade{.target = std::move(request.target),
                        .headers = std::move(request.headers),
                        .patience = request.patience};
  for (Header& header : request_headers(key, request.subprotocols)) {
    upgrade.headers.push_back(std::move(header));
  }
  WebSocketAnswer answer;
  answer.response = co_await this->request(std::move(upgrade));
  if (answer.response.status != 101) co_return answer;
  const std::shared_ptr<Stream> stream = std::exchange(stream_, nullptr);
  close();
  const Accepted accepted = check_accepted(answer.response, key, request.subprotocols);
  if (!accepted.fault.empty() || !stream) {
    throw Error(ErrorCode::protocol_error,
                str("answer of ", config_.address, " to a websocket handshake: ",
                    stream ? accepted.fault : "it closes the connection"));
  }
  stream->deadline = Deadline::max();
  request.options.subprotocol = accepted.subprotocol;
  const auto conversation =
      std::make_shared<Conversation>(stream, Role::client, std::move(request.options));
  conversation->start();
  answer.socket.emplace(conversation);
  co_return answer;
}

Client::Client(asio::any_io_executor executor, ClientConfig config)
    : implementation_(std::make_shared<Implementation>(std::move(executor), std::move(config))) {}

Client::~Client() {
  implementation_->close();
}

Task<Response> Client::request(ClientRequest request) {
  return implementation_->request(std::move(request));
}

Task<Response> Client::open(ClientRequest request) {
  return implementation_->open(std::move(request));
}

Task<std::optional<std::string>> Client::read_some() {
  return implementation_->read_some();
}

Task<WebSocketAnswer> Client::open_websocket(WebSocketRequest request) {
  return implementation_->open_websocket(std::move(request));
}

void Client::close() {
  implementation_->close();
}

}  // namespace caisson::net
