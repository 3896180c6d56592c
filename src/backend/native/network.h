#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/native/nat_table.h"
#include "backend/native/netlink.h"
#include "backend/native/network_claim.h"

namespace caisson::backend::native {

// How a box is connected, for its isolation report.
struct Attachment {
  std::string host_interface;  // "cs0x3", of owner 0
  std::string box_interface;   // "eth0"
  std::string box_address;     // "10.213.0.3"
  std::string gateway;         // "10.213.0.2", the host's end; it answers ARP and nothing else
};

// Whether boxes can have a network here.
struct NetworkProbe {
  bool available = false;
  std::string reason;   // why not; empty when available
  std::string fix;      // the step that would make it available
  std::string caution;  // available, but something on the host may drop the boxes' packets
};

// What the host offers boxes to stand on, as far as it can be read.
struct HostNetwork {
  std::uint32_t subnet = 0;   // the /16 that boxes get addresses from
  std::vector<Link> uplinks;  // the interfaces of the host's default routes
  std::string problem;        // why boxes cannot have a network; empty when they can
  std::string fix;
};

// The network of one owner's boxes with `network: on`: a namespace, a veth pair and an address for
// each, behind NAT. A box reaches what lies behind the host's uplinks (the interfaces of its
// default routes) over IPv4, and nothing else: no address of the host, no other box, no bridge on
// the host, no cloud metadata service, no IPv6. Nobody but the peers of its own connections reaches
// the box.
//
// All filtering is one static nftables table, `inet caisson_<owner>`, that matches interfaces by
// the owner's prefix `cs<owner>x`; attaching a box changes no rule. Owners share nothing but the
// kernel, which allocates the names and the addresses, so they need not know of each other.
//
// Calls are serialised inside, as the kernel serialises them; they may come from any thread.
class Network {
 public:
  explicit Network(unsigned owner);  // 0 to kMaxNetworkOwner; no one else uses this number: claim()

  // A number that nobody in this network namespace has: `preferred` if it can be. `is_live` tells
  // owners that use their number without a claim.
  using IsLive = std::function<bool(unsigned owner)>;
  static NetworkClaim claim(unsigned preferred, const IsLive& is_live);

  // Puts the table in force and lets the uplinks forward. Does nothing that is done already, so
  // call it again when uplinks may have changed or a firewall may have flushed the table: boxes
  // that run are open towards the host until then. Throws isolation_unavailable with the mending
  // step.
  void prepare();

  // Connects a box. `netns_fd` is its network namespace, `box_netlink_fd` a NETLINK_ROUTE socket
  // that was opened in there with CAP_NET_ADMIN over it; the caller closes both. When this returns,
  // the first packet goes through. Prepares first when the table or the uplink is not what it was.
  //
  // A box is disconnected by the end of its namespace, also after a throw: the kernel then removes
  // the pair by itself, while RTM_DELLINK would hold the caller up for some 30 ms.
  Attachment attach(int netns_fd, int box_netlink_fd);

  // Deletes the owner's table. Boxes that are still there are cut off first: without the table they
  // could reach the host.
  void remove();

  // Removes the tables of numbers that nobody has claimed, that `is_live` knows nothing of, and
  // that no box uses: who is there may be somebody whom we do not see. Gives back those that are
  // left because of boxes.
  static std::set<unsigned> sweep(const IsLive& is_live);

  static NetworkProbe probe();

  // Every IPv4 address of this host, as the resolver wants them.
  static std::vector<std::string> host_addresses();

 private:
  bool current(Netlink& route) const;
  void prepare_locked(Netlink& route);
  Link create_pair(Netlink& route, int netns_fd);
  std::uint32_t claim_address(Netlink& route, const Link& host_end);

  const unsigned owner_;
  std::mutex mutex_;
  std::uint64_t table_ = 0;  // tells the table this object loaded from any other
  HostNetwork host_network_;
  // Both rotate, so that a new box does not get the late packets of the last one.
  unsigned next_link_ = 0;
  unsigned next_slot_;
};

// The /16 that boxes get addresses from: the first candidate that no route of the host touches,
// default routes and the routes to boxes aside. Pure.
std::optional<std::uint32_t> choose_subnet(const std::vector<Route>& routes);

}  // namespace caisson::backend::native
