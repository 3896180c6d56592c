#include "backend/native/network.h"

#include <arpa/inet.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

// Boxes get the even-odd pairs (/31) of a /16: the host's end is even, the box's odd.
constexpr unsigned kSlots = 32768;
constexpr unsigned kSlotsPerOwner = kSlots / (kMaxNetworkOwner + 1);
constexpr const char* kBoxInterface = "eth0";
constexpr std::uint8_t kRouteProtocol = 205;    // marks routes to boxes; unused in rt_protos
constexpr std::uint32_t kFarAway = 0x01010101;  // only looked up in the routing table
constexpr std::chrono::milliseconds kActiveTimeout{5000};

constexpr std::uint32_t slash16(unsigned a, unsigned b) {
  return a << 24 | b << 16;
}

// In order of preference: parts of 10/8 that few networks use, 172.16/12 above what Docker takes
// first, shared address space (RFC 6598), 192.168/16, the benchmarking range (RFC 2544).
constexpr std::array<std::uint32_t, 12> kSubnets = {
    slash16(10, 213),  slash16(10, 149),  slash16(10, 87),  slash16(10, 233),
    slash16(172, 30),  slash16(172, 27),  slash16(172, 23), slash16(100, 101),
    slash16(100, 119), slash16(192, 168), slash16(198, 18), slash16(198, 19)};

// A VPN that wants to win over the default route splits it into two halves.
bool is_default(const Route& route) {
  return route.prefix_length <= 1;
}

bool overlaps(const Route& route, std::uint32_t subnet) {
  const std::uint32_t mask = ~std::uint32_t{0} << (32 - std::min(route.prefix_length, 16u));
  return ((route.destination ^ subnet) & mask) == 0;
}

// Where default routes lead, in every table: policy routing and VPNs keep theirs apart.
std::vector<Link> find_uplinks(Netlink& route, const std::vector<Route>& routes) {
  std::set<int> indices;
  for (const Route& candidate : routes) {
    if (is_default(candidate) && candidate.type == RTN_UNICAST) {
      indices.insert(candidate.interfaces.begin(), candidate.interfaces.end());
    }
  }
  std::vector<Link> uplinks;
  for (const int index : indices) {
    Link link = get_link(route, index);
    // The name becomes part of a rule, where these three have a meaning.
    if (link.name.find_first_of("\"\\*") == std::string::npos) uplinks.push_back(std::move(link));
  }
  return uplinks;
}

std::filesystem::path forwarding_file(const Link& link) {
  return std::filesystem::path("/proc/sys/net/ipv4/conf") / link.name / "forwarding";
}

bool forwards(const Link& link) {
  return trim(read_file(forwarding_file(link))) == "1";
}

HostNetwork survey(Netlink& route) {
  HostNetwork found;
  const std::vector<Route> routes = list_routes(route);
  const std::optional<std::uint32_t> subnet = choose_subnet(routes);
  found.uplinks = find_uplinks(route, routes);
  if (!subnet) {
    found.problem = "the host's routes leave no private /16 free for boxes";
    found.fix = str("remove or narrow the route that covers ", format_address(kSubnets.front()),
                    "/16 (see `ip route show table all`)");
  } else if (found.uplinks.empty()) {
    found.problem = "the host has no default IPv4 route";
    found.fix = "connect the host to a network, so that `ip route` shows a default route";
  }
  for (const Link& uplink : found.uplinks) {
    if (forwards(uplink) || ::access(forwarding_file(uplink).c_str(), W_OK) == 0) continue;
    found.problem = str("forwarding on ", uplink.name, " is off and cannot be turned on here");
    found.fix = str("run `sysctl -w net.ipv4.conf.", uplink.name, ".forwarding=1` on the host");
  }
  found.subnet = subnet.value_or(0);
  return found;
}

std::vector<std::string> names(const std::vector<Link>& links) {
  std::vector<std::string> result;
  result.reserve(links.size());
  for (const Link& link : links) result.push_back(link.name);
  return result;
}

// Packets there would be dropped without a word on the host. So the box's own kernel refuses them,
// and a program that asks for credentials of a cloud fails at once instead of waiting for them.
void refuse_metadata_services(Netlink& box) {
  for (const AddressRange& range : kMetadataServices) {
    NetlinkRequest request(str("refuse ", format_address(range.first)), RTM_NEWROUTE,
                           NLM_F_CREATE | NLM_F_EXCL,
                           rtmsg{.rtm_family = AF_INET,
                                 .rtm_dst_len = static_cast<std::uint8_t>(range.prefix_length),
                                 .rtm_table = RT_TABLE_MAIN,
                                 .rtm_protocol = RTPROT_STATIC,
                                 .rtm_scope = RT_SCOPE_UNIVERSE,
                                 .rtm_type = RTN_PROHIBIT});
    box.execute(request.number(RTA_DST, htonl(range.first)));
  }
}

void cut_off_boxes(unsigned owner) {
  Netlink route(NETLINK_ROUTE);
  for (const Link& link : list_links(route)) {
    if (link.name.starts_with(link_prefix(owner))) set_link_down(route, link);
  }
}

bool has_boxes(unsigned owner) {
  Netlink route(NETLINK_ROUTE);
  return std::ranges::any_of(list_links(route), [&](const Link& link) {
    return link.name.starts_with(link_prefix(owner));
  });
}

MacAddress mac_address(std::uint8_t first, unsigned owner, unsigned number) {
  return {first,
          0xca,
          static_cast<std::uint8_t>(owner >> 8),
          static_cast<std::uint8_t>(owner),
          static_cast<std::uint8_t>(number >> 8),
          static_cast<std::uint8_t>(number)};
}

// The host's end: no IPv6, neither addresses nor reception, even if the table were gone;
// forwarding, and a strict check of source addresses besides the one in the table. (An ordinary
// write to conf/<link>/forwarding also turns off LRO; a veth has none.)
void bring_up_host_end(Netlink& route, const Link& link) {
  const std::filesystem::path ipv6 = "/proc/sys/net/ipv6/conf";
  if (std::filesystem::exists(ipv6)) write_control_file(ipv6 / link.name / "disable_ipv6", "1");
  configure_ipv4(route, link,
                 {{IPV4_DEVCONF_FORWARDING, 1},
                  {IPV4_DEVCONF_RP_FILTER, 1},
                  {IPV4_DEVCONF_ARP_IGNORE, 1},  // ARP tells nothing of the host's other addresses
                  {IPV4_DEVCONF_ROUTE_LOCALNET, 0},
                  {IPV4_DEVCONF_ACCEPT_REDIRECTS, 0},
                  {IPV4_DEVCONF_SEND_REDIRECTS, 0}});
  set_link_up(route, link);
}

}  // namespace

std::optional<std::uint32_t> choose_subnet(const std::vector<Route>& routes) {
  std::set<std::uint32_t> boxes;
  for (const Route& route : routes) {
    if (route.protocol == kRouteProtocol) boxes.insert(route.destination);
  }
  const auto ours = [&](const Route& route) {
    if (route.protocol == kRouteProtocol) return true;
    // The host's end of a pair: its address is a local route with a box for a neighbour.
    return route.table == RT_TABLE_LOCAL && route.prefix_length == 32 &&
           boxes.contains(route.destination + 1);
  };
  for (const std::uint32_t subnet : kSubnets) {
    const bool taken = std::any_of(routes.begin(), routes.end(), [&](const Route& route) {
      return !is_default(route) && !ours(route) && overlaps(route, subnet);
    });
    if (!taken) return subnet;
  }
  return std::nullopt;
}

Network::Network(unsigned owner) : owner_(owner), next_slot_(owner * kSlotsPerOwner) {
  if (owner > kMaxNetworkOwner) {
    throw Error(ErrorCode::internal_error, str("network owner ", owner, " is out of range"));
  }
}

void Network::prepare() {
  const std::lock_guard lock(mutex_);
  Netlink route(NETLINK_ROUTE);
  prepare_locked(route);
}

void Network::prepare_locked(Netlink& route) {
  HostNetwork found = survey(route);
  if (!found.problem.empty()) {
    throw Error(ErrorCode::isolation_unavailable,
                str("network of boxes: ", found.problem, "; ", found.fix));
  }
  const bool in_force = table_ != 0 && find_nat_table(owner_) == table_;
  if (!in_force || names(found.uplinks) != names(host_network_.uplinks)) {
    load_nat_table(owner_, names(found.uplinks));
    table_ = find_nat_table(owner_);
  }
  // The kernel asks only the interface a packet comes in by whether it may be forwarded: the pairs
  // (see attach) for what boxes send, the uplinks for the answers. So net.ipv4.ip_forward, which
  // would make a router of every interface, stays as it is.
  for (const Link& uplink : found.uplinks) {
    if (!forwards(uplink)) write_control_file(forwarding_file(uplink), "1");
  }
  host_network_ = std::move(found);
}

bool Network::current(Netlink& route) const {
  if (table_ == 0 || find_nat_table(owner_) != table_) return false;
  const int way_out = find_outgoing_interface(route, kFarAway);
  return std::any_of(host_network_.uplinks.begin(), host_network_.uplinks.end(),
                     [&](const Link& uplink) { return uplink.index == way_out; });
}

Attachment Network::attach(int netns_fd, int box_netlink_fd) {
  const std::lock_guard lock(mutex_);
  Netlink route(NETLINK_ROUTE);
  Netlink box = Netlink::borrow(box_netlink_fd);
  if (!current(route)) prepare_locked(route);

  const Link host_end = create_pair(route, netns_fd);
  const Link box_end = get_link(box, kBoxInterface);
  box.watch_links();
  set_link_up(box, get_link(box, "lo"));
  forbid_ipv6_address(box, box_end);
  set_link_up(box, box_end);
  bring_up_host_end(route, host_end);

  const std::uint32_t gateway = claim_address(route, host_end);
  add_address(route, host_end, gateway, 31, PrefixRoute::omit);
  add_address(box, box_end, gateway + 1, 31, PrefixRoute::add);
  refuse_metadata_services(box);
  add_default_route(box, box_end, gateway);
  wait_until_active(box, box_end, kActiveTimeout);
  return Attachment{.host_interface = host_end.name,
                    .box_interface = box_end.name,
                    .box_address = format_address(gateway + 1),
                    .gateway = format_address(gateway)};
}

Link Network::create_pair(Netlink& route, int netns_fd) {
  std::uint32_t mtu = 65535;  // the most a veth takes
  for (const Link& uplink : host_network_.uplinks) mtu = std::min(mtu, uplink.mtu);
  for (unsigned tries = 0; tries < kSlots; ++tries) {
    const unsigned number = next_link_++ % kSlots;
    const VethEnd end{str(link_prefix(owner_), number), mac_address(0x02, owner_, number)};
    const VethEnd peer{kBoxInterface, mac_address(0x06, owner_, number)};
    if (create_veth(route, end, peer, netns_fd, mtu)) return get_link(route, end.name);
  }
  throw Error(ErrorCode::capacity_reached, "all interface names for boxes are in use");
}

// An address is taken by adding the route to it: the kernel keeps one route per destination on the
// whole host, so owners that chose the same subnet never give two boxes the same address.
std::uint32_t Network::claim_address(Netlink& route, const Link& host_end) {
  for (unsigned tries = 0; tries < kSlots; ++tries) {
    const std::uint32_t gateway = host_network_.subnet + 2 * (next_slot_++ % kSlots);
    if (add_host_route(route, host_end, gateway + 1, kRouteProtocol)) return gateway;
  }
  throw Error(
      ErrorCode::capacity_reached,
      str("all addresses for boxes in ", format_address(host_network_.subnet), "/16 are in use"));
}

void Network::remove() {
  const std::lock_guard lock(mutex_);
  cut_off_boxes(owner_);
  delete_nat_table(owner_);
  table_ = 0;
}

NetworkClaim Network::claim(unsigned preferred, const IsLive& is_live) {
  const auto take = [](unsigned number) {
    std::optional<NetworkClaim> claim = NetworkClaim::take(number);
    if (claim && has_boxes(number)) claim.reset();
    return claim;
  };
  if (auto claim = take(preferred)) return std::move(*claim);
  for (unsigned number = 0; number <= kMaxNetworkOwner; ++number) {
    if (number == preferred || is_live(number)) continue;
    if (auto claim = take(number)) return std::move(*claim);
  }
  throw Error(ErrorCode::capacity_reached,
              "all numbers for networks of boxes are in use in this network namespace");
}

std::set<unsigned> Network::sweep(const IsLive& is_live) {
  std::set<unsigned> owners;
  if (list_nat_tables(owners) != 0) return {};  // who cannot see tables has none to remove
  std::set<unsigned> left;
  for (const unsigned owner : owners) {
    if (is_live(owner)) continue;
    const std::optional<NetworkClaim> claim = NetworkClaim::take(owner);
    if (!claim) continue;
    if (has_boxes(owner)) {
      left.insert(owner);
    } else {
      delete_nat_table(owner);
    }
  }
  return left;
}

std::vector<std::string> Network::host_addresses() {
  Netlink route(NETLINK_ROUTE);
  std::vector<std::string> addresses;
  for (const Route& entry : list_routes(route)) {
    if (entry.type == RTN_LOCAL && entry.prefix_length == 32) {
      addresses.push_back(format_address(entry.destination));
    }
  }
  return addresses;
}

NetworkProbe Network::probe() {
  std::set<unsigned> owners;
  const int error = list_nat_tables(owners);
  if (error == EPERM) {
    return {.reason = "this process may not change the network", .fix = "run it as root"};
  }
  if (error != 0) {
    return {.reason = str("the kernel has no nftables: ", error_text(error)),
            .fix = "load nf_tables (`modprobe nf_tables`) or boot a kernel that has it"};
  }
  Netlink route(NETLINK_ROUTE);
  if (!can_create_veth(route)) {
    return {.reason = "the kernel cannot make veth interfaces",
            .fix = "load veth (`modprobe veth`) or boot a kernel that has it"};
  }
  const HostNetwork found = survey(route);
  if (!found.problem.empty()) return {.reason = found.problem, .fix = found.fix};
  const std::string refusal = check_nat_table(kMaxNetworkOwner, names(found.uplinks));
  if (!refusal.empty()) {
    return {.reason = str("the kernel refuses the rules for boxes: ", refusal),
            .fix =
                "load nft_fib_inet, nft_ct, nft_connlimit, nft_limit, nft_masq and nf_nat, or "
                "boot a kernel with them"};
  }
  NetworkProbe probe{.available = true};
  const std::string chain = find_dropping_forward_chain();
  if (!chain.empty()) {
    probe.caution =
        str("chain `", chain, "` drops forwarded packets by default, as Docker sets it; ",
            "if boxes get no answers: `nft insert rule ", chain,
            " iifname \"cs*\" accept` and `nft insert rule ", chain,
            " oifname \"cs*\" ct state established,related accept`");
  }
  return probe;
}

}  // namespace caisson::backend::native
