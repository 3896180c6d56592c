#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace caisson::net {

// How it is known that a peer may speak to the daemon; each is worth more than those before it.
enum class Trust {
  none,   // it is not: the peer gets nothing but what everybody may have
  open,   // the operator lets everybody on this host in
  user,   // the kernel says which user it is, and that one may
  token,  // it has shown the token
};

// What is known of whoever has connected.
struct Peer {
  std::string name;           // for logs and counts: "127.0.0.1", "2001:db8:1:2::/64" or "unix"
  Trust trust = Trust::none;  // of a connection what is known at once, of a request also its token
  std::optional<uid_t> uid = {};  // where it is known

  bool is_known() const { return trust != Trust::none; }
};

}  // namespace caisson::net
