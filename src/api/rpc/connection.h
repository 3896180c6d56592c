#pragma once
#include <boost/asio/steady_timer.hpp>
#include <boost/json/stream_parser.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/rpc/envelope.h"
#include "api/rpc/runtime.h"
#include "api/rpc/transfers.h"
#include "async/cancellation.h"
#include "async/signal.h"
#include "async/task.h"
#include "async/task_group.h"
#include "net/budget.h"

namespace caisson::api::rpc {

// What messages come and go by: a websocket, or standard input and output.
class Channel {
 public:
  virtual ~Channel() = default;
  // The next message; nullopt: there will be none.
  virtual Task<std::optional<std::string>> read() = 0;
  // Messages of several writers go one after the other. False: nobody will take it.
  virtual Task<bool> write(std::string text) = 0;
};

struct Host {
  std::string instance;  // empty: a host of old, or one that has not said it yet
  bool legacy = false;   // may act without a context
  // It started the daemon and speaks by standard input: without headers, its first context says
  // which instance it is.
  bool is_parent = false;
  bool shown_token = false;      // or is_parent
  bool splits_messages = false;  // long ones come in pieces, each a message of its own
  std::size_t max_answer = kMaxMessage;
  std::shared_ptr<net::Share> share = {};  // of memory, for what it sends; null: not counted
};

// One host's conversation with the daemon. Requests are begun in the order in which they come and
// run side by side; each is answered once, unless the host has it cancelled.
class Connection {
 public:
  // Both outlive it.
  Connection(const boost::asio::any_io_executor& executor, Runtime& runtime, Channel& channel,
             Host host);

  // Until there are no more messages. What is at work then is cancelled; when this returns, nothing
  // is.
  Task<void> run();

 private:
  Task<void> take_all();
  bool take(const std::string& text);
  bool take_text(const std::string& text);
  bool take_object(std::string_view text, boost::json::object object);
  bool take_piece(const std::string& text);
  bool refuse_depth(const std::string& text);
  Task<void> answer(std::string sequence, boost::json::object message,
                    std::shared_ptr<Cancellation> cancellation);
  Task<void> send(std::string text);
  Task<boost::json::object> perform(Request request, std::shared_ptr<Cancellation> cancellation);
  std::string fitting_answer(const std::string& sequence, boost::json::object data) const;
  void check_context(const Request& request);
  // A request of this number that is made for the same tenant; false: none is at work.
  bool cancel(const std::string& sequence, const std::optional<session::Tenant>& tenant);

  Runtime& runtime_;
  Channel& channel_;
  Host host_;
  Transfers transfers_;
  std::optional<Door::Presence> presence_;
  struct Work {
    std::string sequence;
    std::optional<session::Tenant> tenant = {};  // once it has been read
  };
  std::map<std::shared_ptr<Cancellation>, Work> at_work_;
  TaskGroup tasks_;
  Signal room_;
  // Of a message that is not complete yet, and whose rest is not waited for without end.
  struct Pieces {
    std::string text;
    net::Charge held;
    std::optional<boost::json::stream_parser> parser;
  };
  std::shared_ptr<Pieces> pieces_;
  boost::asio::steady_timer pieces_timer_;
};

}  // namespace caisson::api::rpc
