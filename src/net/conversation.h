#pragma once
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/event.h"
#include "async/signal.h"
#include "async/task.h"
#include "async/task_group.h"
#include "async/turns.h"
#include "base/clock.h"
#include "net/budget.h"
#include "net/frame.h"
#include "net/frame_reader.h"
#include "net/liveness.h"
#include "net/stream.h"
#include "net/websocket.h"

namespace caisson::net {

// What is behind a WebSocket: a coroutine that reads frames as they come, the messages that nobody
// has fetched yet, and who may write. Whoever owns the connection calls check() every now and then;
// a client's conversation does so itself.
class Conversation : public std::enable_shared_from_this<Conversation> {
 public:
  Conversation(std::shared_ptr<Stream> stream, Role role, WebSocketOptions options);

  void start();

  // The coroutines keep the conversation, so that a WebSocket may go while they wait.
  static Task<std::optional<Message>> read(std::shared_ptr<Conversation> self);
  static Task<bool> write(std::shared_ptr<Conversation> self, Message message);
  static Task<bool> write_texts(std::shared_ptr<Conversation> self, std::vector<std::string> texts,
                                std::function<void(std::size_t)> taken);
  static Task<void> close(std::shared_ptr<Conversation> self, CloseReason reason);
  // Closes, and returns when nothing reads or writes any more.
  static Task<void> finish(std::shared_ptr<Conversation> self, CloseReason reason);

  std::optional<Message> read_now();
  // Sends the Close and does not wait. Does nothing when closing has begun.
  void begin_close(CloseReason reason);
  // Looks after what has a deadline: pings, a silent peer, closing.
  void check(Deadline now);
  // Ends it without a word.
  void cut() { lose("the daemon stops"); }
  // The WebSocket is gone.
  void leave();

  const Event& ended() const { return ended_; }
  const CloseReason& reason() const { return reason_; }
  bool peer_closed() const { return peer_closed_; }
  const WebSocketOptions& options() const { return options_; }
  const std::shared_ptr<Share>& share() const { return stream_->share(); }
  // Cut rather than closed: the peer need not be waited for.
  bool lost() const { return lost_; }

 private:
  // While it lives nobody else writes. The connection is lost unless `whole` is set.
  struct Writing;

  static Task<void> read_frames(std::shared_ptr<Conversation> self);
  static Task<void> write_control(std::shared_ptr<Conversation> self, std::string bytes);
  Task<bool> read_input();
  bool take_input();
  void on_message();
  void on_pong();
  void on_close();
  bool inbox_full() const;
  // Nothing is read: messages wait to be fetched, or there is no room for the next one.
  bool held_up() const { return inbox_full() || (reader_.starved() && !closing_); }
  void await_message();
  void refuse_message();
  void check_message(Deadline now);

  Charge keep(std::size_t bytes);
  Task<bool> may_write();
  FrameHead next_head(const Message& message, std::size_t at, std::size_t size);
  void append_text(std::string& out, std::string text);
  MaskKey next_key();
  void append_control(std::string& out, Opcode opcode, std::string payload);
  std::string take_control();
  void flush();
  void written();

  void end(CloseReason reason);
  void fail(const FrameError& error);
  void lose(std::string_view why);
  void check_closed();
  void tick();

  std::shared_ptr<Stream> stream_;
  Role role_;
  WebSocketOptions options_;
  TaskGroup tasks_;
  boost::asio::steady_timer timer_;  // of a client

  FrameReader reader_;
  std::deque<Message> inbox_;
  std::size_t inbox_bytes_ = 0;
  Signal arrived_;
  Signal fetched_;
  bool reading_ = true;                          // false: held up
  Deadline message_deadline_ = Deadline::max();  // for the rest of one that has begun
  std::optional<Share::Unfinished> unfinished_;
  Liveness liveness_;

  Turns writers_;
  Signal may_write_;
  bool writing_ = false;
  std::optional<std::string> pong_;   // to be sent: only the last ping needs an answer
  std::optional<std::string> ping_;   // to be sent
  std::optional<std::string> close_;  // to be sent
  std::array<char, 256> random_{};
  std::size_t random_used_ = sizeof random_;

  CloseReason reason_{.code = CloseCode::lost};
  bool closing_ = false;      // nothing but a Close is sent any more
  bool close_begun_ = false;  // the Close is on its way
  bool close_sent_ = false;   //
  bool read_closed_ = false;  // nothing is read any more
  bool own_close_ = false;    // what the peer still sends is not wanted
  bool peer_closed_ = false;  // the reason is the peer's
  bool lost_ = false;
  Deadline close_deadline_ = Deadline::max();
  Event ended_;
  Event closed_;
};

}  // namespace caisson::net
