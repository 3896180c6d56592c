#pragma once
#include <libmnl/libmnl.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace caisson::backend::native {

// One message to the kernel, built attribute by attribute. Each names what it does and to what, so
// that a refusal reads "create veth cs0x3: Operation not permitted".
class NetlinkRequest {
 public:
  // `header` is the fixed part that follows nlmsghdr, e.g. an ifinfomsg.
  template <typename Header>
  NetlinkRequest(std::string what, std::uint16_t type, std::uint16_t flags, const Header& header)
      : NetlinkRequest(std::move(what), type, flags, &header, sizeof header) {}

  NetlinkRequest(const NetlinkRequest&) = delete;
  NetlinkRequest& operator=(const NetlinkRequest&) = delete;

  NetlinkRequest& number(std::uint16_t type, std::uint32_t value);
  NetlinkRequest& text(std::uint16_t type, const std::string& value);  // with its terminating zero
  NetlinkRequest& bytes(std::uint16_t type, const void* data, std::size_t size);
  // Attributes until the matching end() are nested in this one.
  NetlinkRequest& begin(std::uint16_t type);
  NetlinkRequest& end();
  // A fixed header inside a nested attribute, as VETH_INFO_PEER wants it.
  NetlinkRequest& extra_header(std::size_t size);

  const std::string& what() const { return what_; }

 private:
  friend class Netlink;
  NetlinkRequest(std::string what, std::uint16_t type, std::uint16_t flags, const void* header,
                 std::size_t size);
  void check_room(std::size_t payload) const;

  std::string what_;
  alignas(8) std::array<char, 1024> buffer_;
  nlmsghdr* message_;
  std::vector<nlattr*> open_;
};

// A netlink socket. It acts on the network namespace it was opened in, whoever holds it. For one
// thread at a time.
class Netlink {
 public:
  using Visitor = std::function<void(const nlmsghdr&)>;

  explicit Netlink(int protocol);  // NETLINK_ROUTE or NETLINK_NETFILTER, in this thread's namespace
  // Speaks through a socket that another process opened; `fd` stays the caller's.
  static Netlink borrow(int fd);

  // Send the request and wait for the kernel's verdict; `visit` sees every answer, of a dump too.
  // These throw SystemError ...
  void execute(NetlinkRequest& request);
  void query(NetlinkRequest& request, const Visitor& visit);
  // ... and these give the verdict back: 0 or an errno.
  int attempt(NetlinkRequest& request);
  int attempt(NetlinkRequest& request, const Visitor& visit);

  // From now on link changes arrive on this socket as well; requests pass over them.
  void watch_links();
  // Returns when an announcement has come since the last call, maybe during a request; false when
  // `timeout` passes first.
  bool wait_for_change(std::chrono::milliseconds timeout);

 private:
  explicit Netlink(UniqueFd fd) : fd_(std::move(fd)) {}
  std::size_t receive(std::string_view what, int flags);

  UniqueFd fd_;
  std::uint32_t sequence_ = 0;
  bool passed_over_ = false;  // an announcement came while a request waited for its answer
  std::vector<char> buffer_;
};

// The attributes of an answer, after its fixed header.
void for_each_attribute(const nlmsghdr& message, std::size_t header_size,
                        const std::function<void(const nlattr*)>& visit);
void for_each_nested(const nlattr* attribute, const std::function<void(const nlattr*)>& visit);

// IPv4 addresses here are plain numbers in host byte order.
std::string format_address(std::uint32_t address);  // "10.213.0.3"

struct Link {
  int index = 0;
  std::string name;
  std::uint32_t mtu = 0;
  bool active = false;  // packets sent now are not thrown away (see wait_until_active())
};

struct Route {
  std::uint32_t destination = 0;
  unsigned prefix_length = 0;
  std::uint32_t table = 0;
  unsigned protocol = 0;
  unsigned type = 0;            // RTN_UNICAST, RTN_LOCAL, ...
  std::vector<int> interfaces;  // indices; several for a multipath route
  bool operator==(const Route&) const = default;
};

using MacAddress = std::array<std::uint8_t, 6>;

struct VethEnd {
  std::string name;
  MacAddress mac;
};

// Every IPv4 route of every table.
std::vector<Route> list_routes(Netlink& route);
std::vector<Link> list_links(Netlink& route);
Link get_link(Netlink& route, const std::string& name);  // throws SystemError(ENODEV)
Link get_link(Netlink& route, int index);
// The interface packets to `address` would leave by; 0 when there is no way.
int find_outgoing_interface(Netlink& route, std::uint32_t address);

// Creates both ends, down; `peer` appears directly in the namespace of `peer_netns_fd`. False when
// the name is taken: the kernel is the allocator of names.
bool create_veth(Netlink& route, const VethEnd& end, const VethEnd& peer, int peer_netns_fd,
                 std::uint32_t mtu);

// Whether this kernel makes veth pairs at all; creates nothing.
bool can_create_veth(Netlink& route);

void set_link_up(Netlink& route, const Link& link);
void set_link_down(Netlink& route, const Link& link);  // a link that is gone is down
// Without it the kernel makes an fe80:: address when the link comes up.
void forbid_ipv6_address(Netlink& route, const Link& link);
// Sets net.ipv4.conf.<link>.* entries by IPV4_DEVCONF_* number, without a detour through /proc/sys.
void configure_ipv4(Netlink& route, const Link& link,
                    const std::vector<std::pair<std::uint16_t, std::uint32_t>>& values);

enum class PrefixRoute { add, omit };
void add_address(Netlink& route, const Link& link, std::uint32_t address, unsigned prefix_length,
                 PrefixRoute prefix_route);
// False when a route to that address exists, through whatever interface.
bool add_host_route(Netlink& route, const Link& link, std::uint32_t address, std::uint8_t protocol);
void add_default_route(Netlink& route, const Link& link, std::uint32_t gateway);

// Of a pair, the link that came up first gets its queue, and the state that shows it, only when the
// kernel's link watcher has run; until then it drops what is sent, and a lost ARP packet costs a
// second. Asking for the link makes Linux 6.7 and later run the watcher at once; older ones
// announce that it ran, hence watch_links() first.
void wait_until_active(Netlink& route, const Link& link, std::chrono::milliseconds timeout);

}  // namespace caisson::backend::native
