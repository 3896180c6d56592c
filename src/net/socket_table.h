#pragma once
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/unique_fd.h"

namespace caisson::net {

// One end of a TCP connection. IPv4 addresses are mapped into IPv6, so that there is one spelling.
struct Endpoint {
  std::array<std::uint8_t, 16> address{};
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

// A TCP connection as its socket has it.
struct Ends {
  Endpoint own;
  Endpoint other;
  bool operator==(const Ends&) const = default;
};

// The ends of a connection whose both are on loopback; nullopt for every other, and for one that is
// no connection any more.
std::optional<Ends> loopback_ends(int socket);

// The kernel's table of TCP sockets in this process's network namespace: which user holds a socket.
//
// Sockets that nobody holds any more show up in it as root's: those in TIME_WAIT, those that were
// closed before everything was sent, those that nobody has accepted yet. What tells them apart is
// that they have no inode, and they count as nobody's.
class SocketTable {
 public:
  enum class Source {
    kernel,  // NETLINK_SOCK_DIAG
    files,   // /proc/net/tcp, line by line
  };

  // The kernel where it answers.
  SocketTable();
  explicit SocketTable(Source source);

  // Who made the socket with these ends; nullopt: there is none, or nobody has it open.
  std::optional<uid_t> find_holder(const Ends& ends);

 private:
  std::optional<uid_t> ask_kernel(const Ends& ends);

  UniqueFd netlink_;  // invalid: files
  std::uint32_t sequence_ = 0;
};

// The same of a text as in /proc/net/tcp or /proc/net/tcp6.
std::optional<uid_t> find_holder_in(std::string_view table, const Ends& ends);

}  // namespace caisson::net
