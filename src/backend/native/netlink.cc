#include "backend/native/netlink.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

namespace caisson::backend::native {

namespace {

constexpr std::size_t kReceiveBytes = 64u << 10;  // a dump never needs more in one datagram
constexpr std::uint16_t kCreate = NLM_F_CREATE | NLM_F_EXCL;

}  // namespace

NetlinkRequest::NetlinkRequest(std::string what, std::uint16_t type, std::uint16_t flags,
                               const void* header, std::size_t size)
    : what_(std::move(what)), message_(mnl_nlmsg_put_header(buffer_.data())) {
  message_->nlmsg_type = type;
  message_->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  std::memcpy(mnl_nlmsg_put_extra_header(message_, size), header, size);
}

void NetlinkRequest::check_room(std::size_t payload) const {
  const std::size_t needed = message_->nlmsg_len + MNL_ATTR_HDRLEN + MNL_ALIGN(payload);
  if (needed > buffer_.size()) throw SystemError(what_, EMSGSIZE);
}

NetlinkRequest& NetlinkRequest::bytes(std::uint16_t type, const void* data, std::size_t size) {
  check_room(size);
  mnl_attr_put(message_, type, size, data);
  return *this;
}

NetlinkRequest& NetlinkRequest::number(std::uint16_t type, std::uint32_t value) {
  return bytes(type, &value, sizeof value);
}

NetlinkRequest& NetlinkRequest::text(std::uint16_t type, const std::string& value) {
  return bytes(type, value.c_str(), value.size() + 1);
}

NetlinkRequest& NetlinkRequest::begin(std::uint16_t type) {
  check_room(0);
  open_.push_back(mnl_attr_nest_start(message_, type));
  return *this;
}

NetlinkRequest& NetlinkRequest::end() {
  mnl_attr_nest_end(message_, open_.back());
  open_.pop_back();
  return *this;
}

NetlinkRequest& NetlinkRequest::extra_header(std::size_t size) {
  check_room(size);
  mnl_nlmsg_put_extra_header(message_, size);  // zero-filled
  return *this;
}

Netlink::Netlink(int protocol)
    : fd_(check_syscall("open netlink socket",
                        ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol))) {}

Netlink Netlink::borrow(int fd) {
  return Netlink(duplicate(fd, "borrow netlink socket"));
}

void Netlink::execute(NetlinkRequest& request) {
  if (const int error = attempt(request)) throw SystemError(request.what(), error);
}

void Netlink::query(NetlinkRequest& request, const Visitor& visit) {
  if (const int error = attempt(request, visit)) throw SystemError(request.what(), error);
}

int Netlink::attempt(NetlinkRequest& request) {
  return attempt(request, [](const nlmsghdr&) {});
}

int Netlink::attempt(NetlinkRequest& request, const Visitor& visit) {
  nlmsghdr* message = request.message_;
  const bool dump = (message->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  if (!dump) message->nlmsg_flags |= NLM_F_ACK;  // a dump ends with NLMSG_DONE instead
  message->nlmsg_seq = ++sequence_;
  check_syscall(request.what(), ::send(fd_.get(), message, message->nlmsg_len, 0));
  while (true) {
    int left = static_cast<int>(receive(request.what(), 0));
    for (auto* reply = reinterpret_cast<const nlmsghdr*>(buffer_.data()); mnl_nlmsg_ok(reply, left);
         reply = mnl_nlmsg_next(reply, &left)) {
      // Announcements of watch_links() carry sequence 0; late answers an older one.
      if (reply->nlmsg_seq != sequence_) {
        passed_over_ = true;
        continue;
      }
      if (reply->nlmsg_type == NLMSG_ERROR) {
        return -static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(reply))->error;
      }
      if (reply->nlmsg_type == NLMSG_DONE) return 0;
      visit(*reply);
    }
  }
}

std::size_t Netlink::receive(std::string_view what, int flags) {
  buffer_.resize(kReceiveBytes);
  while (true) {
    sockaddr_nl sender{};
    socklen_t size = sizeof sender;
    const ssize_t received =
        ::recvfrom(fd_.get(), buffer_.data(), buffer_.size(), flags | MSG_TRUNC,
                   reinterpret_cast<sockaddr*>(&sender), &size);
    if (received < 0 && errno == EINTR) continue;
    check_syscall(what, received);
    if (static_cast<std::size_t>(received) > buffer_.size()) throw SystemError(what, EMSGSIZE);
    if (sender.nl_pid == 0) return static_cast<std::size_t>(received);
  }
}

void Netlink::watch_links() {
  const int group = RTNLGRP_LINK;
  check_syscall("watch links",
                ::setsockopt(fd_.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group));
}

bool Netlink::wait_for_change(std::chrono::milliseconds timeout) {
  if (std::exchange(passed_over_, false)) return true;
  pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  const int ready = ::poll(&entry, 1, static_cast<int>(timeout.count()));
  if (ready < 0 && errno == EINTR) return true;
  check_syscall("wait for link change", ready);
  if (ready > 0) receive("wait for link change", MSG_DONTWAIT);
  return ready > 0;
}

std::string format_address(std::uint32_t address) {
  const in_addr network{.s_addr = htonl(address)};
  char text[INET_ADDRSTRLEN];
  return ::inet_ntop(AF_INET, &network, text, sizeof text);
}

namespace {

void visit_attributes(const void* first, const void* end,
                      const std::function<void(const nlattr*)>& visit) {
  const auto* at = static_cast<const nlattr*>(first);
  while (mnl_attr_ok(
      at, static_cast<int>(static_cast<const char*>(end) - reinterpret_cast<const char*>(at)))) {
    visit(at);
    at = mnl_attr_next(at);
  }
}

void read_nexthops(const nlattr* attribute, std::vector<int>& interfaces) {
  const auto* hop = static_cast<const rtnexthop*>(mnl_attr_get_payload(attribute));
  int left = mnl_attr_get_payload_len(attribute);
  while (RTNH_OK(hop, left)) {
    interfaces.push_back(hop->rtnh_ifindex);
    left -= RTNH_ALIGN(hop->rtnh_len);
    hop = RTNH_NEXT(hop);
  }
}

Route parse_route(const nlmsghdr& message) {
  const auto* header = static_cast<const rtmsg*>(mnl_nlmsg_get_payload(&message));
  Route route{.prefix_length = header->rtm_dst_len,
              .table = header->rtm_table,
              .protocol = header->rtm_protocol,
              .type = header->rtm_type};
  for_each_attribute(message, sizeof(rtmsg), [&](const nlattr* attribute) {
    switch (mnl_attr_get_type(attribute)) {
      case RTA_DST:
        route.destination = ntohl(mnl_attr_get_u32(attribute));
        break;
      case RTA_TABLE:
        route.table = mnl_attr_get_u32(attribute);
        break;
      case RTA_OIF:
        route.interfaces.push_back(static_cast<int>(mnl_attr_get_u32(attribute)));
        break;
      case RTA_MULTIPATH:
        read_nexthops(attribute, route.interfaces);
        break;
      default:
        break;
    }
  });
  return route;
}

Link parse_link(const nlmsghdr& message) {
  const auto* header = static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(&message));
  Link link{.index = header->ifi_index};
  std::uint8_t state = IF_OPER_UNKNOWN;
  for_each_attribute(message, sizeof(ifinfomsg), [&](const nlattr* attribute) {
    switch (mnl_attr_get_type(attribute)) {
      case IFLA_IFNAME:
        link.name = mnl_attr_get_str(attribute);
        break;
      case IFLA_MTU:
        link.mtu = mnl_attr_get_u32(attribute);
        break;
      case IFLA_OPERSTATE:
        state = mnl_attr_get_u8(attribute);
        break;
      default:
        break;
    }
  });
  link.active = (header->ifi_flags & IFF_UP) != 0 && state == IF_OPER_UP;
  return link;
}

Link query_link(Netlink& route, NetlinkRequest& request) {
  Link link;
  route.query(request, [&](const nlmsghdr& reply) { link = parse_link(reply); });
  return link;
}

}  // namespace

void for_each_attribute(const nlmsghdr& message, std::size_t header_size,
                        const std::function<void(const nlattr*)>& visit) {
  visit_attributes(mnl_nlmsg_get_payload_offset(&message, header_size),
                   mnl_nlmsg_get_payload_tail(&message), visit);
}

void for_each_nested(const nlattr* attribute, const std::function<void(const nlattr*)>& visit) {
  const auto* payload = static_cast<const char*>(mnl_attr_get_payload(attribute));
  visit_attributes(payload, payload + mnl_attr_get_payload_len(attribute), visit);
}

std::vector<Route> list_routes(Netlink& route) {
  NetlinkRequest request("list routes", RTM_GETROUTE, NLM_F_DUMP, rtmsg{.rtm_family = AF_INET});
  std::vector<Route> routes;
  route.query(request, [&](const nlmsghdr& reply) { routes.push_back(parse_route(reply)); });
  return routes;
}

std::vector<Link> list_links(Netlink& route) {
  NetlinkRequest request("list links", RTM_GETLINK, NLM_F_DUMP, ifinfomsg{});
  std::vector<Link> links;
  route.query(request, [&](const nlmsghdr& reply) { links.push_back(parse_link(reply)); });
  return links;
}

Link get_link(Netlink& route, const std::string& name) {
  NetlinkRequest request(str("look up link ", name), RTM_GETLINK, 0, ifinfomsg{});
  request.text(IFLA_IFNAME, name);
  return query_link(route, request);
}

Link get_link(Netlink& route, int index) {
  NetlinkRequest request(str("look up link ", index), RTM_GETLINK, 0,
                         ifinfomsg{.ifi_index = index});
  return query_link(route, request);
}

int find_outgoing_interface(Netlink& route, std::uint32_t address) {
  NetlinkRequest request(str("look up the route to ", format_address(address)), RTM_GETROUTE, 0,
                         rtmsg{.rtm_family = AF_INET, .rtm_dst_len = 32});
  request.number(RTA_DST, htonl(address));
  int found = 0;
  const int error = route.attempt(request, [&](const nlmsghdr& reply) {
    const Route answer = parse_route(reply);
    if (answer.type == RTN_UNICAST && !answer.interfaces.empty()) found = answer.interfaces.front();
  });
  return error == 0 ? found : 0;
}

bool create_veth(Netlink& route, const VethEnd& end, const VethEnd& peer, int peer_netns_fd,
                 std::uint32_t mtu) {
  NetlinkRequest request(str("create veth ", end.name), RTM_NEWLINK, kCreate, ifinfomsg{});
  // A MAC address given at birth is left alone by udev's MACAddressPolicy, which would otherwise
  // change it after the other end has learned it.
  request.text(IFLA_IFNAME, end.name).number(IFLA_MTU, mtu);
  request.bytes(IFLA_ADDRESS, end.mac.data(), end.mac.size());
  request.begin(IFLA_LINKINFO).text(IFLA_INFO_KIND, "veth").begin(IFLA_INFO_DATA);
  request.begin(VETH_INFO_PEER).extra_header(sizeof(ifinfomsg));
  request.text(IFLA_IFNAME, peer.name).number(IFLA_MTU, mtu);
  request.bytes(IFLA_ADDRESS, peer.mac.data(), peer.mac.size());
  request.number(IFLA_NET_NS_FD, static_cast<std::uint32_t>(peer_netns_fd));
  request.end().end().end();
  const int error = route.attempt(request);
  if (error != 0 && error != EEXIST) throw SystemError(request.what(), error);
  return error == 0;
}

bool can_create_veth(Netlink& route) {
  // An all-zero address is refused by the veth driver itself, so only if there is one.
  NetlinkRequest request("look for the veth driver", RTM_NEWLINK, kCreate, ifinfomsg{});
  request.bytes(IFLA_ADDRESS, MacAddress{}.data(), sizeof(MacAddress));
  request.begin(IFLA_LINKINFO).text(IFLA_INFO_KIND, "veth").end();
  return route.attempt(request) == EADDRNOTAVAIL;
}

void set_link_up(Netlink& route, const Link& link) {
  NetlinkRequest request(
      str("set up ", link.name), RTM_NEWLINK, 0,
      ifinfomsg{.ifi_index = link.index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP});
  route.execute(request);
}

void set_link_down(Netlink& route, const Link& link) {
  NetlinkRequest request(str("set down ", link.name), RTM_NEWLINK, 0,
                         ifinfomsg{.ifi_index = link.index, .ifi_flags = 0, .ifi_change = IFF_UP});
  const int error = route.attempt(request);
  if (error != 0 && error != ENODEV) throw SystemError(request.what(), error);
}

void forbid_ipv6_address(Netlink& route, const Link& link) {
  NetlinkRequest request(str("forbid IPv6 addresses on ", link.name), RTM_SETLINK, 0,
                         ifinfomsg{.ifi_index = link.index});
  const std::uint8_t mode = IN6_ADDR_GEN_MODE_NONE;
  request.begin(IFLA_AF_SPEC).begin(AF_INET6);
  request.bytes(IFLA_INET6_ADDR_GEN_MODE, &mode, sizeof mode).end().end();
  // A kernel without IPv6 has nothing to forbid.
  const int error = route.attempt(request);
  if (error != 0 && error != EAFNOSUPPORT) throw SystemError(request.what(), error);
}

void configure_ipv4(Netlink& route, const Link& link,
                    const std::vector<std::pair<std::uint16_t, std::uint32_t>>& values) {
  NetlinkRequest request(str("configure IPv4 of ", link.name), RTM_SETLINK, 0,
                         ifinfomsg{.ifi_index = link.index});
  request.begin(IFLA_AF_SPEC).begin(AF_INET).begin(IFLA_INET_CONF);
  for (const auto& [entry, value] : values) request.number(entry, value);
  request.end().end().end();
  route.execute(request);
}

void add_address(Netlink& route, const Link& link, std::uint32_t address, unsigned prefix_length,
                 PrefixRoute prefix_route) {
  NetlinkRequest request(str("add address ", format_address(address), " to ", link.name),
                         RTM_NEWADDR, kCreate,
                         ifaddrmsg{.ifa_family = AF_INET,
                                   .ifa_prefixlen = static_cast<std::uint8_t>(prefix_length),
                                   .ifa_index = static_cast<std::uint32_t>(link.index)});
  request.number(IFA_LOCAL, htonl(address)).number(IFA_ADDRESS, htonl(address));
  if (prefix_route == PrefixRoute::omit) request.number(IFA_FLAGS, IFA_F_NOPREFIXROUTE);
  route.execute(request);
}

bool add_host_route(Netlink& route, const Link& link, std::uint32_t address,
                    std::uint8_t protocol) {
  NetlinkRequest request(str("add route to ", format_address(address), " by ", link.name),
                         RTM_NEWROUTE, kCreate,
                         rtmsg{.rtm_family = AF_INET,
                               .rtm_dst_len = 32,
                               .rtm_table = RT_TABLE_MAIN,
                               .rtm_protocol = protocol,
                               .rtm_scope = RT_SCOPE_LINK,
                               .rtm_type = RTN_UNICAST});
  request.number(RTA_DST, htonl(address)).number(RTA_OIF, static_cast<std::uint32_t>(link.index));
  const int error = route.attempt(request);
  if (error != 0 && error != EEXIST) throw SystemError(request.what(), error);
  return error == 0;
}

void add_default_route(Netlink& route, const Link& link, std::uint32_t gateway) {
  NetlinkRequest request(str("add default route by ", link.name), RTM_NEWROUTE, kCreate,
                         rtmsg{.rtm_family = AF_INET,
                               .rtm_table = RT_TABLE_MAIN,
                               .rtm_protocol = RTPROT_STATIC,
                               .rtm_scope = RT_SCOPE_UNIVERSE,
                               .rtm_type = RTN_UNICAST});
  request.number(RTA_GATEWAY, htonl(gateway));
  request.number(RTA_OIF, static_cast<std::uint32_t>(link.index));
  route.execute(request);
}

void wait_until_active(Netlink& route, const Link& link, std::chrono::milliseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  bool late = false;
  while (!get_link(route, link.index).active) {
    if (late) {
      throw Error(ErrorCode::timeout, str("link ", link.name, " did not become active within ",
                                          timeout.count(), " ms"));
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    late = left.count() <= 0 || !route.wait_for_change(left);
  }
}

}  // namespace caisson::backend::native
