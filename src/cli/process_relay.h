#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "async/event.h"
#include "async/task.h"
#include "base/clock.h"
#include "cli/process_client.h"
#include "cli/relay_message.h"
#include "net/websocket.h"

namespace caisson::cli {

struct RelayRequest {
  ProcessName name;
  enum class Mode { wait, takeover, observe } mode = Mode::wait;
  std::optional<std::uint64_t> from;      // of standard output; none: where the last client left
  std::optional<std::uint64_t> err_from;  // of standard error; none: not at all
  bool seen = false;  // the process is there: a daemon that is not is waited for from the first
  std::chrono::milliseconds patience{30'000};  // for a daemon that went away
};

// A conversation with a process. It outlives the connection: when that is lost, or the daemon
// restarts, it goes on with the first byte that it has not got. Lives on one event loop thread.
class ProcessRelay {
 public:
  // The client is used for every connection; it must not be at work otherwise meanwhile.
  ProcessRelay(boost::asio::any_io_executor executor, DaemonClient& client, RelayRequest request);
  ProcessRelay(const ProcessRelay&) = delete;
  ProcessRelay& operator=(const ProcessRelay&) = delete;

  // Called with a sentence when the connection is lost, and when there is one again.
  std::function<void(const std::string&)> on_notice;

  // What happens next. Each connection begins with a RelayHello; RelayExit and RelayLeft are the
  // last. Throws when the process or its session is gone, another client has taken over, or the
  // daemon does not come back in time.
  Task<RelayEvent> next();

  // False: there is no connection now, or it was lost meanwhile.
  Task<bool> send_text(std::string text);
  Task<bool> send_binary(std::string bytes);
  bool open() const { return socket_ != nullptr; }
  // And it is our turn.
  bool connected() const { return socket_ != nullptr && greeted_; }

  // next() returns soon, with RelayLeft.
  Task<void> leave();

 private:
  Task<void> connect();
  Task<void> connect_again();
  Task<net::WebSocket> open_socket();
  std::string target() const;
  void note_loss();
  void follow(const RelayEvent& event);

  DaemonClient& client_;
  RelayRequest request_;
  std::shared_ptr<net::WebSocket> socket_;  // shared with those who write
  Event leaving_;
  bool greeted_ = false;   // on this connection
  bool was_here_ = false;  // there was a connection before
  bool lost_ = false;      // and that it is lost was told
};

}  // namespace caisson::cli
