#include "net/socket_table.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace caisson::net {

namespace {

constexpr std::uint32_t kLoopbackInterface = 1;  // in every network namespace
constexpr std::size_t kMappedPrefix = 12;

// As in the kernel's net/tcp_states.h. Of a socket that is held, these are connected; in the last
// two its holder has said that it will send no more.
enum State : unsigned { kEstablished = 1, kFinWait1 = 4, kFinWait2 = 5 };

std::optional<uid_t> holder(unsigned state, uid_t uid, std::uint64_t inode) {
  const bool connected = state == kEstablished || state == kFinWait1 || state == kFinWait2;
  return connected && inode != 0 ? std::optional<uid_t>(uid) : std::nullopt;
}

Endpoint mapped(const in_addr& address, std::uint16_t port) {
  Endpoint end{.port = port};
  end.address[10] = end.address[11] = 0xff;
  std::memcpy(&end.address[kMappedPrefix], &address, sizeof address);
  return end;
}

bool is_mapped(const Endpoint& end) {
  const Endpoint nowhere = mapped({}, 0);
  return std::equal(end.address.begin(), end.address.begin() + kMappedPrefix,
                    nowhere.address.begin());
}

bool is_loopback(const Endpoint& end) {
  if (is_mapped(end)) return end.address[kMappedPrefix] == 127;
  return std::memcmp(end.address.data(), &in6addr_loopback, sizeof in6addr_loopback) == 0;
}

using GetName = int (*)(int, sockaddr*, socklen_t*);

std::optional<Endpoint> endpoint(int socket, GetName get_name) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (get_name(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    return mapped(four.sin_addr, ntohs(four.sin_port));
  }
  if (storage.ss_family != AF_INET6) return std::nullopt;
  const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
  Endpoint end{.port = ntohs(six.sin6_port)};
  std::memcpy(end.address.data(), &six.sin6_addr, end.address.size());
  return end;
}

struct DiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

DiagRequest make_request(std::uint8_t family, std::uint16_t flags, std::uint32_t sequence) {
  DiagRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  request.header.nlmsg_seq = sequence;
  request.body.sdiag_family = family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  return request;
}

// An address as the kernel's messages have it: in the first of four words when it is IPv4.
void put(std::uint32_t (&words)[4], const Endpoint& end) {
  const std::size_t skipped = is_mapped(end) ? kMappedPrefix : 0;
  std::memcpy(words, &end.address[skipped], end.address.size() - skipped);
}

Endpoint take(const std::uint32_t (&words)[4], std::uint8_t family, std::uint16_t port) {
  if (family == AF_INET) {
    in_addr four{};
    std::memcpy(&four, words, sizeof four);
    return mapped(four, ntohs(port));
  }
  Endpoint end{.port = ntohs(port)};
  std::memcpy(end.address.data(), words, end.address.size());
  return end;
}

Ends ends_in(const inet_diag_msg& found) {
  const inet_diag_sockid& id = found.id;
  return {.own = take(id.idiag_src, found.idiag_family, id.idiag_sport),
          .other = take(id.idiag_dst, found.idiag_family, id.idiag_dport)};
}

// The answer with this number; empty: there is none. The kernel answers before it returns from the
// question, so nothing is waited for.
std::vector<std::byte> receive(int netlink, std::uint32_t sequence) {
  std::vector<std::byte> buffer(4096);
  for (;;) {
    const ssize_t size = ::recv(netlink, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < static_cast<ssize_t>(sizeof(nlmsghdr))) return {};
    nlmsghdr header{};
    std::memcpy(&header, buffer.data(), sizeof header);
    if (header.nlmsg_seq != sequence) continue;
    buffer.resize(std::min<std::size_t>(static_cast<std::size_t>(size), header.nlmsg_len));
    return buffer;
  }
}

template <typename Body>
std::optional<Body> body_of(std::span<const std::byte> message) {
  if (message.size() < NLMSG_HDRLEN + sizeof(Body)) return std::nullopt;
  Body body{};
  std::memcpy(&body, message.data() + NLMSG_HDRLEN, sizeof body);
  return body;
}

// A list of sockets in no state is empty, and asks whether the kernel would make one.
UniqueFd open_netlink() {
  UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return {};
  const DiagRequest request = make_request(AF_INET, NLM_F_DUMP, 0);
  if (::send(netlink.get(), &request, sizeof request, 0) < 0) return {};
  const std::vector<std::byte> answer = receive(netlink.get(), 0);
  // NLMSG_DONE and NLMSG_ERROR both begin with an errno, or 0.
  const std::optional<int> result = body_of<int>(answer);
  return result == 0 ? std::move(netlink) : UniqueFd();
}

// "0100007F:1522": words in the byte order of the machine, and a port.
std::optional<Endpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon != 8 && colon != 32) return std::nullopt;
  const auto number = [](std::string_view digits, auto& value) {
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  Endpoint end = mapped({}, 0);
  if (!number(text.substr(colon + 1), end.port)) return std::nullopt;
  for (std::size_t i = 0; i < colon / 8; ++i) {
    std::uint32_t word = 0;
    if (!number(text.substr(i * 8, 8), word)) return std::nullopt;
    const std::size_t at = colon == 8 ? kMappedPrefix : i * 4;
    std::memcpy(&end.address[at], &word, sizeof word);
  }
  return end;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(line, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

}  // namespace

std::optional<Ends> loopback_ends(int socket) {
  const std::optional<Endpoint> own = endpoint(socket, ::getsockname);
  const std::optional<Endpoint> other = endpoint(socket, ::getpeername);
  if (!own || !other || !is_loopback(*own) || !is_loopback(*other)) return std::nullopt;
  return Ends{.own = *own, .other = *other};
}

SocketTable::SocketTable() : netlink_(open_netlink()) {}

SocketTable::SocketTable(Source source)
    : netlink_(source == Source::kernel ? open_netlink() : UniqueFd()) {}

std::optional<uid_t> SocketTable::find_holder(const Ends& ends) {
  if (netlink_) return ask_kernel(ends);
  // A socket of either family can be an end of an IPv4 connection.
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    try {
      const std::optional<std::string> table = find_file_content(path);
      const std::optional<uid_t> found = table ? find_holder_in(*table, ends) : std::nullopt;
      if (found) return found;
    } catch (const Error&) {
      return std::nullopt;  // no descriptor left to ask with, or more sockets than can be read
    }
  }
  return std::nullopt;
}

std::optional<uid_t> SocketTable::ask_kernel(const Ends& ends) {
  const auto family = static_cast<std::uint8_t>(is_mapped(ends.own) ? AF_INET : AF_INET6);
  DiagRequest request = make_request(family, 0, ++sequence_);
  inet_diag_sockid& id = request.body.id;
  put(id.idiag_src, ends.own);
  put(id.idiag_dst, ends.other);
  id.idiag_sport = htons(ends.own.port);
  id.idiag_dport = htons(ends.other.port);
  id.idiag_if = kLoopbackInterface;  // for sockets that are bound to it; others are found as well
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(netlink_.get(), &request, sizeof request, 0) < 0) return std::nullopt;
  const std::vector<std::byte> answer = receive(netlink_.get(), sequence_);
  const std::optional<nlmsghdr> header = [&]() -> std::optional<nlmsghdr> {
    if (answer.size() < sizeof(nlmsghdr)) return std::nullopt;
    nlmsghdr value{};
    std::memcpy(&value, answer.data(), sizeof value);
    return value;
  }();
  if (!header || header->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  const std::optional<inet_diag_msg> found = body_of<inet_diag_msg>(answer);
  // Where there is no such connection the kernel offers a listener on the port, if there is one.
  if (!found || ends_in(*found) != ends) return std::nullopt;
  return holder(found->idiag_state, found->idiag_uid, found->idiag_inode);
}

std::optional<uid_t> find_holder_in(std::string_view table, const Ends& ends) {
  for (const std::string_view line : split(table, '\n')) {
    // number, own end, other end, state, queues, timer, retransmits, user, timeout, inode
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() < 10 || parse_endpoint(words[1]) != ends.own ||
        parse_endpoint(words[2]) != ends.other) {
      continue;
    }
    unsigned state = 0;
    std::from_chars(words[3].data(), words[3].data() + words[3].size(), state, 16);
    const auto uid = parse_integer(words[7]);
    const auto inode = parse_integer(words[9]);
    if (!uid || !inode) return std::nullopt;
    return holder(state, static_cast<uid_t>(*uid), static_cast<std::uint64_t>(*inode));
  }
  return std::nullopt;
}

}  // namespace caisson::net
