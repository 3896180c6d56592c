#pragma once
#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "net/budget.h"
#include "net/refusals.h"
#include "net/router.h"

namespace caisson::net {

// See Listener.
struct UnixSocket {
  std::string path;
  std::optional<gid_t> group = {};  // whose members may come; none: only users who are trusted
  bool dispensable = false;         // where it cannot be had the server does without, and says so
};

// Who needs no token to speak to the port.
enum class WithoutToken {
  nobody,
  users,     // on loopback: root, the user of the server, and those that are named
  everybody  // who can connect
};

struct ServerConfig {
  // At least one of the two. A host is a numeric address or "localhost"; port 0 takes a free one.
  std::string host;
  std::uint16_t port = 0;
  std::vector<UnixSocket> unix_sockets;

  std::vector<std::string> host_names;  // see GuardConfig
  std::vector<std::string> origins;
  std::string token;
  WithoutToken without_token = WithoutToken::users;  // on TCP; a unix socket knows its users
  std::vector<uid_t> users;                          // trusted besides root and our own

  std::string farewell = "the daemon stops";  // what websockets are told when it does

  std::size_t max_head = 16u << 10;
  // Above the first, clients wait in the listener's queue until somebody leaves, and are told to
  // come again when nobody has for `queue_deadline`. The second is for each address of another
  // host: on this one everybody has the same.
  std::size_t max_connections = 1024;
  std::size_t max_connections_per_peer = 512;
  std::shared_ptr<Budget> budget;                   // null: one of its own, with the default
  std::chrono::milliseconds head_deadline{10'000};  // for a whole head, however it trickles in
  std::chrono::milliseconds idle_deadline{75'000};  // between two requests
  std::chrono::milliseconds body_deadline{
      60'000};  // for a whole body or message, and between two pieces
  std::chrono::milliseconds write_deadline{30'000};  // for a peer that takes nothing
  std::chrono::milliseconds linger_deadline{1'000};  // for a refused peer to see its answer
  std::chrono::milliseconds queue_deadline{10'000};  // for a place, while nobody leaves
};

struct ServerCounts {
  std::size_t connections = 0;
  std::size_t busy = 0;         // with a handler at work
  std::size_t websockets = 0;   // of these
  std::uint64_t accepted = 0;   // since the start
  std::uint64_t refused = 0;    // for want of descriptors or above a maximum
  Refusals::Counts refusals{};  // of requests, since the start
  BudgetStatus buffers;
};

// An HTTP/1.1 and websocket server on one event loop thread. The router and the executor outlive
// it.
class Server {
 public:
  // Listens at once. Throws an Error that names the address.
  Server(boost::asio::any_io_executor executor, const Router& router, ServerConfig config);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  std::uint16_t port() const;                // 0 without TCP
  std::vector<std::string> sockets() const;  // paths of the unix sockets it listens on
  ServerCounts counts() const;

  // Accepts and answers until stop() has done its work.
  Task<void> run();

  // Accepts nobody any more, closes idle connections and websockets, lets the handlers at work
  // finish within the grace and cancels the rest. Every connection has ended when this returns.
  Task<void> stop(std::chrono::milliseconds grace);

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace caisson::net
