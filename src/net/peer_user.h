#pragma once
#include <sys/types.h>

#include <optional>
#include <vector>

#include "net/peer.h"
#include "net/socket_table.h"

namespace caisson::net {

struct ServerConfig;

// Which user of this host has connected, as the kernel says. Nothing a peer sends has a part in it.
class PeerUsers {
 public:
  PeerUsers();

  // Of a unix socket who connected it. Of a TCP connection on loopback who holds its other end, at
  // this moment: who has closed it is nobody any more. nullopt also for a peer in another network
  // namespace, which comes to loopback through NAT, and for one whose id is not of this user
  // namespace.
  std::optional<uid_t> find(int socket);

  // What is known of who has connected, and whether that is enough for this server. The mode of a
  // unix socket lets in nobody but who may come, the `group` included; should it have been changed,
  // this counts.
  Peer look_at(int socket, const ServerConfig& config, std::optional<gid_t> group);

 private:
  SocketTable table_;
  // The id that stands for everybody who has none in this user namespace. Whoever shows up with it
  // could be anyone, also when we have the same. nullopt: everybody has one.
  std::optional<uid_t> everybody_;
};

// Whether the peer of a unix socket was a member of the group when it connected.
bool is_of_group(int socket, gid_t group);

// Which users need no token: root, the one we run as, and those that the operator names.
bool is_trusted_user(uid_t uid, const std::vector<uid_t>& named);

}  // namespace caisson::net
