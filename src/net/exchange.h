#pragma once
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/http.h"
#include "net/message_parser.h"
#include "net/refusals.h"
#include "net/response_head.h"
#include "net/router.h"
#include "net/server.h"
#include "net/stream.h"
#include "net/websocket.h"

namespace caisson::net {

// The server's side of one request: frames the body that comes in and the answer that goes out.
class ServerExchange final : public Exchange {
 public:
  ServerExchange(Stream& stream, MessageParser& parser, const ServerConfig& config, Peer peer,
                 Refusals& refusals, const bool& stopping, Request request)
      : stream_(stream),
        parser_(parser),
        config_(config),
        peer_(std::move(peer)),
        refusals_(refusals),
        stopping_(stopping),
        request_(std::move(request)) {}

  // What has been found out about whoever sent it.
  void set_trust(Trust trust) { peer_.trust = trust; }
  // Which route it is: its parameters, and the most that a body may have.
  void set_route(Router::Match match);
  // From now on the answer says that it is the last one of this connection.
  void set_last() { keep_alive_ = false; }

  const Request& request() const override { return request_; }
  const std::string& param(std::string_view name) const override;
  const Peer& peer() const override { return peer_; }
  std::shared_ptr<Share> share() const override { return stream_.share(); }
  Task<std::string> read_body(std::uint64_t limit) override;
  Task<std::optional<std::string>> read_some() override;
  Task<void> reply(Response response) override;
  Task<void> begin(int status, std::string content_type, std::vector<Header> headers) override;
  Task<void> write(std::string chunk) override;
  Task<void> end() override;
  Task<WebSocket> accept_websocket(WebSocketOptions options) override;
  const Event& client_gone() override { return stream_.ended(); }

  bool unanswered() const { return state_ == State::unanswered; }
  bool answered() const { return state_ == State::answered; }
  // The client is gone or has been given up: there is nobody to answer.
  bool broken() const { return broken_; }
  // Null unless a websocket was accepted.
  const std::shared_ptr<Conversation>& conversation() const { return conversation_; }
  // After a whole answer: whether the next request may come on this connection.
  bool keeps_alive() const { return keep_alive_ && !broken_; }

 private:
  enum class State { unanswered, streaming, answered };

  void begin_answer();
  void end_request();
  void make_room(std::string& body);
  Framing framing_of(int status) const;
  Task<void> send(std::array<std::string_view, 3> pieces);
  Task<void> invite_body();
  std::size_t parse_piece(std::string_view input, std::string& body);
  Task<void> read_piece(std::string& body, std::uint64_t limit);
  [[noreturn]] void give_up(std::string_view why);

  Stream& stream_;
  MessageParser& parser_;
  const ServerConfig& config_;
  Peer peer_;
  Refusals& refusals_;
  const bool& stopping_;
  Request request_;
  Router::Match match_;
  std::uint64_t max_body_ = 0;
  std::uint64_t body_read_ = 0;
  Charge body_held_{stream_.share(), Flow::incoming};    // until the request is answered
  Charge answer_held_{stream_.share(), Flow::outgoing};  // what the client has not taken yet
  State state_ = State::unanswered;
  Framing framing_ = Framing::length;
  bool keep_alive_ = true;
  bool invited_ = false;
  bool broken_ = false;
  std::shared_ptr<Conversation> conversation_;
};

}  // namespace caisson::net
