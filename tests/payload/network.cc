// Rows I11 and I12: off means off, and on is still not the host's network.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.h"
#include "check.h"
#include "foreign_abi.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr int kConnectMilliseconds = 1500;

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
};

// "127.0.0.1:80" or "[::1]:80"; length 0 when it is neither.
Endpoint parse_endpoint(const std::string& text) {
  Endpoint endpoint;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return endpoint;
  const auto port = htons(static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1)));
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&endpoint.address);
    host = host.substr(1, host.size() - 2);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = port;
    if (::inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) endpoint.length = sizeof *v6;
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&endpoint.address);
    v4->sin_family = AF_INET;
    v4->sin_port = port;
    if (::inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) endpoint.length = sizeof *v4;
  }
  return endpoint;
}

// 0 when the connection stands, otherwise the errno. Over UDP this only asks for a route.
int connect_to(const Endpoint& endpoint, int type) {
  const UniqueFd fd(::socket(endpoint.address.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  const auto* address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  if (::connect(fd.get(), address, endpoint.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd wait{fd.get(), POLLOUT, 0};
  if (::poll(&wait, 1, kConnectMilliseconds) <= 0) return ETIMEDOUT;
  int error_number = 0;
  socklen_t length = sizeof error_number;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &length) < 0) return errno;
  return error_number;
}

Outcome route_default(Argument) {
  for (const char* somewhere : {"198.51.100.1:9", "[2001:db8::1]:9"}) {
    if (connect_to(parse_endpoint(somewhere), SOCK_DGRAM) == 0) {
      return allowed(std::string("a route to ") + somewhere);
    }
  }
  return denied("no route");
}

Outcome route_metadata(Argument) {
  const Endpoint service = parse_endpoint("169.254.169.254:80");
  const int route = connect_to(service, SOCK_DGRAM);
  if (route != 0) return denied(errno_name(route));
  const int connection = connect_to(service, SOCK_STREAM);
  return connection == 0 ? allowed("connected") : denied(errno_name(connection));
}

// A route would send packets that are dropped on the way: whoever asks would wait for an answer.
Outcome metadata_at_once(Argument) {
  for (const char* service : {"169.254.169.254:80", "169.254.170.2:80", "100.100.100.200:80"}) {
    if (connect_to(parse_endpoint(service), SOCK_DGRAM) == 0) {
      return allowed(std::string("a route to ") + service);
    }
  }
  return denied("no route");
}

// The argument lists listeners of the other side: "127.0.0.1:4000,[::1]:4001".
Outcome judge_listeners(const std::string& listeners) {
  if (listeners.empty()) return broken("needs listeners such as 127.0.0.1:4000,[::1]:4001");
  std::string refusal;
  for (const std::string& listener : words_of(listeners, ',')) {
    const Endpoint endpoint = parse_endpoint(listener);
    if (endpoint.length == 0) return broken(listener + " is no address");
    const int error_number = connect_to(endpoint, SOCK_STREAM);
    if (error_number == 0) return allowed("connected to " + listener);
    refusal = errno_name(error_number);
  }
  return denied(refusal);
}
Outcome host_loopback(Argument listeners) {
  return judge_listeners(listeners);
}
Outcome host_address(Argument listeners) {
  return judge_listeners(listeners);
}

Outcome host_abstract_unix(Argument name) {
  if (name.empty() || name.size() > 100) return broken("needs the name of an abstract socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return judge(-1);
  return judge(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length),
               {ECONNREFUSED, ENOENT});
}

Outcome host_sysv_shm(Argument key) {
  if (key.empty()) return broken("needs the key of a segment");
  return judge(::shmget(static_cast<key_t>(std::stol(key)), 0, 0), {ENOENT});
}

// Tunnel devices that a kernel puts into every namespace are down, and do not count.
Outcome only_lo(Argument) {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return broken("socket " + errno_name(errno));
  for (const std::string& line : lines_of("/proc/net/dev")) {
    const std::size_t colon = line.find(':');
    const std::size_t start = line.find_first_not_of(' ');
    if (colon == std::string::npos || start >= colon) continue;
    const std::string name = line.substr(start, colon - start);
    ifreq request{};
    std::memcpy(request.ifr_name, name.data(), std::min<std::size_t>(name.size(), IFNAMSIZ - 1));
    if (::ioctl(fd.get(), SIOCGIFFLAGS, &request) < 0) return broken(name + errno_name(errno));
    if (name != "lo" && (request.ifr_flags & IFF_UP) != 0) return allowed(name + " is up");
  }
  return denied("no interface but lo is up");
}

Outcome judge_socket(int family, int type, int protocol) {
  const UniqueFd fd(::socket(family, type | SOCK_CLOEXEC, protocol));
  return judge(fd.get(), {EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT});
}
Outcome raw_socket(Argument) {
  return judge_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}
Outcome raw_socket6(Argument) {
  return judge_socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
}
Outcome packet_socket(Argument) {
  return judge_socket(AF_PACKET, SOCK_RAW, 0);
}
Outcome vsock_socket(Argument) {
  return judge_socket(AF_VSOCK, SOCK_STREAM, 0);
}
Outcome vsock_ia32(Argument) {
  return judge_ia32_socket(AF_VSOCK, SOCK_STREAM);
}

// A link of a kind that does not exist: a permitted caller gets EOPNOTSUPP and no link.
Outcome netlink_newlink(Argument) {
  constexpr char kKind[] = "caisson-none";
  struct {
    nlmsghdr header{};
    ifinfomsg link{};
    rtattr info{};
    rtattr kind{};
    char name[sizeof kKind] = {};
  } request;
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_NEWLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
  request.kind.rta_len = RTA_LENGTH(sizeof kKind);
  request.kind.rta_type = IFLA_INFO_KIND;
  request.info.rta_len = static_cast<unsigned short>(RTA_LENGTH(request.kind.rta_len));
  request.info.rta_type = IFLA_LINKINFO;
  std::memcpy(request.name, kKind, sizeof kKind);
  const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!fd) return judge(-1, {EAFNOSUPPORT, EPROTONOSUPPORT});
  if (::send(fd.get(), &request, sizeof request, 0) < 0) return judge(-1);
  struct {
    nlmsghdr header{};
    nlmsgerr error{};
    char rest[256] = {};
  } answer;
  if (::recv(fd.get(), &answer, sizeof answer, 0) < 0) return broken("recv " + errno_name(errno));
  errno = -answer.error.error;
  return judge(answer.error.error == 0 ? 0 : -1);
}

constexpr Check kChecks[] = {
    {"I11", "route_default", route_default},
    {"I11 I12", "route_metadata", route_metadata},
    {"I11 I12", "metadata_at_once", metadata_at_once},
    {"I11 I12 I17", "host_loopback", host_loopback},
    {"I11 I12 I17", "host_abstract_unix", host_abstract_unix},
    {"I11 I12 I17", "host_sysv_shm", host_sysv_shm},
    {"I11", "only_lo", only_lo},
    {"I12", "host_address", host_address},
    {"I12", "raw_socket", raw_socket},
    {"I12", "raw_socket6", raw_socket6},
    {"I12", "packet_socket", packet_socket},
    {"I12", "vsock_socket", vsock_socket},
    {"I12", "vsock_ia32", vsock_ia32},
    {"I12", "netlink_newlink", netlink_newlink},
};

}  // namespace

std::span<const Check> network_checks() {
  return kChecks;
}

}  // namespace caisson::payload
