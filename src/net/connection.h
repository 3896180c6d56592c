#pragma once
#include <boost/asio/cancellation_signal.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "async/task.h"
#include "net/exchange.h"
#include "net/guard.h"
#include "net/message_parser.h"
#include "net/peer.h"
#include "net/refusals.h"
#include "net/router.h"
#include "net/server.h"
#include "net/stream.h"

namespace caisson::net {

// What all connections of one listener share. Outlives them.
struct ConnectionContext {
  const Router& router;
  const ServerConfig& config;
  GuardConfig guard;
  Refusals& refusals;
  bool stopping = false;
  bool crowded = false;  // clients wait for somebody to leave
};

// One client: reads requests, has them answered one after the other, and closes in such a way that
// the last answer is seen.
class Connection {
 public:
  // `head` is what has been reserved for the head of a request, of the connection's share.
  Connection(Stream::Socket socket, std::shared_ptr<ConnectionContext> context, Peer peer,
             std::shared_ptr<Share> share, Charge head);

  // Returns when the connection is closed.
  static Task<void> serve(std::shared_ptr<Connection> self);

  // A handler is at work.
  bool busy() const { return busy_; }
  // It has accepted a websocket.
  bool is_websocket() const { return exchange_ && exchange_->conversation(); }
  const Peer& peer() const { return peer_; }
  void check_deadline(Deadline now);
  // Closes unless a handler is at work; then its answer is the last one. A websocket is closed, and
  // its handler sees that.
  void stop();
  // Ends the handler.
  void cancel() { cancel_.emit(boost::asio::cancellation_type::terminal); }
  void close() { stream_->close(); }
  boost::asio::cancellation_slot cancel_slot() { return cancel_.slot(); }

 private:
  Task<bool> serve_one();
  Task<std::size_t> read_head();
  Task<void> refuse(Response response);
  Task<bool> answer(ServerExchange& exchange);
  Task<void> end_websocket(ServerExchange& exchange, std::exception_ptr failure);
  Task<bool> answer_failure(ServerExchange& exchange, std::exception_ptr failure);
  void answer_now(const Response& response);

  std::shared_ptr<ConnectionContext> context_;
  Peer peer_;
  Charge head_;
  std::shared_ptr<Stream> stream_;
  MessageParser parser_{MessageParser::Kind::request};
  std::optional<ServerExchange> exchange_;  // the request that is being answered
  boost::asio::cancellation_signal cancel_;
  Deadline idle_since_{};
  bool idle_ = false;  // between two requests
  bool first_ = true;
  bool busy_ = false;
};

// The bytes of an answer to a client that is not served at all.
std::string busy_answer();

}  // namespace caisson::net
