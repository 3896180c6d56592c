#include "cli/process_relay.h"

#include <utility>
#include <variant>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::cli {

namespace {

constexpr std::chrono::milliseconds kBetweenAttempts{100};
constexpr net::CloseCode kTakenOver{4000};

const char* name_of(RelayRequest::Mode mode) {
  switch (mode) {
    case RelayRequest::Mode::wait:
      return "wait";
    case RelayRequest::Mode::takeover:
      return "takeover";
    case RelayRequest::Mode::observe:
      break;
  }
  return "observe";
}

// Failures that the next attempt may not have: nobody is there, or it is about to go.
bool may_pass(ErrorCode code) {
  return code == ErrorCode::backend_unavailable || code == ErrorCode::runtime_unavailable ||
         code == ErrorCode::timeout || code == ErrorCode::protocol_error;
}

bool is_loss(net::CloseCode code) {
  return code == net::CloseCode::lost || code == net::CloseCode::going_away ||
         code == net::CloseCode::try_again_later;
}

}  // namespace

ProcessRelay::ProcessRelay(boost::asio::any_io_executor executor, DaemonClient& client,
                           RelayRequest request)
    : client_(client), request_(std::move(request)), leaving_(std::move(executor)) {}

std::string ProcessRelay::target() const {
  std::string query = str("/ws?attach=", name_of(request_.mode));
  if (request_.from) query += str("&from=", *request_.from);
  if (request_.err_from) query += str("&stderr_from=", *request_.err_from);
  return process_target(request_.name, query);
}

Task<net::WebSocket> ProcessRelay::open_socket() {
  net::WebSocketRequest request{
      .target = target(), .headers = {}, .subprotocols = {kRelayProtocol}, .options = {}};
  co_return co_await client_.open_websocket(std::move(request));
}

void ProcessRelay::note_loss() {
  if (std::exchange(lost_, true) || !on_notice) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(request_.patience);
  on_notice(
      str("the connection to the daemon is lost; it is tried again for ", seconds.count(), " s"));
}

Task<void> ProcessRelay::connect_again() {
  const Deadline deadline = Clock::now() + request_.patience;
  while (!leaving_.is_set()) {
    try {
      socket_ = std::make_shared<net::WebSocket>(co_await open_socket());
      co_return;
    } catch (const Error& error) {
      if (!may_pass(error.code()) || Clock::now() >= deadline) throw;
    }
    note_loss();
    co_await leaving_.wait_until(Clock::now() + kBetweenAttempts);
  }
}

Task<void> ProcessRelay::connect() {
  greeted_ = false;
  if (was_here_ || request_.seen) {
    co_await connect_again();
  } else {
    socket_ = std::make_shared<net::WebSocket>(co_await open_socket());
  }
}

// Remembers how far we got.
void ProcessRelay::follow(const RelayEvent& event) {
  if (const auto* hello = std::get_if<RelayHello>(&event)) {
    request_.from = hello->from;
    // Who has come meanwhile is not sent away.
    if (request_.mode == RelayRequest::Mode::takeover) request_.mode = RelayRequest::Mode::wait;
    if (std::exchange(lost_, false) && on_notice) on_notice("connected again");
    greeted_ = was_here_ = true;
  } else if (const auto* output = std::get_if<RelayOutput>(&event)) {
    auto& offset = output->stream == RelayStream::out ? request_.from : request_.err_from;
    offset = output->offset + output->bytes.size();
  } else if (const auto* truncated = std::get_if<RelayTruncated>(&event)) {
    (truncated->stream == RelayStream::out ? request_.from : request_.err_from) = truncated->to;
  }
}

Task<RelayEvent> ProcessRelay::next() {
  for (;;) {
    if (!socket_ && !leaving_.is_set()) co_await connect();
    if (leaving_.is_set()) co_return RelayLeft{};
    const std::shared_ptr<net::WebSocket> socket = socket_;
    std::optional<net::Message> message = co_await socket->read();
    if (message) {
      const std::optional<RelayEvent> event = read_relay_message(std::move(*message));
      if (!event) continue;
      follow(*event);
      co_return *event;
    }
    const net::CloseReason reason = socket->reason();
    socket_.reset();
    if (leaving_.is_set()) co_return RelayLeft{};
    // One that waits for its turn is closed without a word when another one takes over.
    const bool sent_away = reason.code == net::CloseCode::normal && !greeted_;
    if (reason.code == kTakenOver || sent_away) {
      throw Error(ErrorCode::managed_process_conflict,
                  str("another client has taken over process ", printable(request_.name.process),
                      " of session ", printable(request_.name.session)));
    }
    if (!is_loss(reason.code)) {
      throw Error(ErrorCode::protocol_error,
                  str("the daemon closed the connection: ", printable(reason.text), " (",
                      static_cast<int>(reason.code), ")"));
    }
    note_loss();
    was_here_ = true;
  }
}

Task<bool> ProcessRelay::send_text(std::string text) {
  const std::shared_ptr<net::WebSocket> socket = socket_;
  co_return socket != nullptr&& co_await socket->write_text(std::move(text));
}

Task<bool> ProcessRelay::send_binary(std::string bytes) {
  const std::shared_ptr<net::WebSocket> socket = socket_;
  co_return socket != nullptr&& co_await socket->write_binary(std::move(bytes));
}

Task<void> ProcessRelay::leave() {
  leaving_.set();
  const std::shared_ptr<net::WebSocket> socket = socket_;
  if (socket) co_await socket->close({.code = net::CloseCode::going_away, .text = ""});
}

}  // namespace caisson::cli
