#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/task.h"
#include "net/frame.h"
#include "net/frame_reader.h"

namespace caisson::net {

class Conversation;

struct WebSocketOptions {
  std::string subprotocol;                // what a server chooses; one that the client offered
  std::uint64_t max_message = 16u << 20;  // of a message that comes in
  std::size_t max_fragment = 128u << 10;  // longer messages go out in pieces; 0: never
  std::chrono::milliseconds ping_interval{30'000};  // 0: the peer is never asked whether it lives
  // For a whole message, once it has begun; 0: none. A server has one for all (ServerConfig).
  std::chrono::milliseconds message_deadline{0};
  std::chrono::milliseconds close_deadline{5'000};  // for the peer's part in closing
};

// One end of a websocket (RFC 6455, without extensions), the server's or the client's. It lives on
// the thread of its event loop.
//
// Frames are read also while nobody calls read(): pings are answered at once, except behind
// frames of ours that are half sent and behind more unread messages than 256 KiB.
//
// Messages are kept in the memory of the connection's share of a budget (budget.h). One that finds
// no room is not read on until there is some or its deadline has passed. An answer that finds none
// closes the conversation: try_again_later.
//
// A peer that lets nothing be heard for one interval gets a ping, and after two it is given up.
// What counts as a sign of life is any byte that comes from it and, when it has fallen behind, that
// it takes what we sent: so a peer that reads slowly is waited for. It may have to read up to 128
// KiB before it comes to our ping, for which it gets up to four more intervals: with the default it
// has to read a KiB a second.
class WebSocket {
 public:
  explicit WebSocket(std::shared_ptr<Conversation> conversation);
  WebSocket(WebSocket&&) noexcept = default;
  WebSocket& operator=(WebSocket&&) = delete;
  // A client's connection is cut if it was not closed; a server's is closed when its handler
  // returns, with `normal`, or with what the handler's exception comes to.
  ~WebSocket();

  // The next message, whole; nullopt when there will be none: closing has begun on either side or
  // the connection is lost. What the peer sent before it closed is still read.
  Task<std::optional<Message>> read();
  // The next message if it has come already.
  std::optional<Message> read_now();

  // Returns when the system has taken the message, which may be long after the call. A text must be
  // UTF-8. False: nobody will take it, as above. Messages of several writers go one after the
  // other. A writer that is cancelled half way cuts the connection.
  Task<bool> write(Message message);
  Task<bool> write_text(std::string text);
  Task<bool> write_binary(std::string bytes);
  // Several, each at most max_fragment long, in one system call where the peer keeps up. `taken` is
  // told how many the system has taken, whenever there are more.
  Task<bool> write_texts(std::vector<std::string> texts, std::function<void(std::size_t)> taken);

  // Tells the peer, and returns when it has answered or the deadline has passed.
  Task<void> close(CloseReason reason = {});

  // Happens as soon as closing has begun on either side or the connection is lost.
  const Event& ended() const;
  // Afterwards: the first reason that was given. `lost` when the peer went without one.
  const CloseReason& reason() const;
  // It was the peer who gave it.
  bool peer_closed() const;
  // What memory that is kept for the peer is taken from. Null: it is not counted.
  const std::shared_ptr<Share>& share() const;
  // What the server chose, or empty.
  const std::string& subprotocol() const;

 private:
  std::shared_ptr<Conversation> conversation_;
};

}  // namespace caisson::net
