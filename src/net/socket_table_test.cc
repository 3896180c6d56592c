#include "net/socket_table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "net/server_for_test.h"

namespace caisson::net {
namespace {

sockaddr_in6 loopback_address(int family, std::uint16_t port) {
  sockaddr_in6 address{};
  if (family == AF_INET6) {
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    address.sin6_port = htons(port);
  } else {
    auto& four = reinterpret_cast<sockaddr_in&>(address);
    four.sin_family = AF_INET;
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    four.sin_port = htons(port);
  }
  return address;
}

// A connection on loopback; `accepted` is our end of it and `client` the peer's.
struct Connected {
  explicit Connected(int family = AF_INET) {
    listener = UniqueFd(check_syscall("socket", ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    client = UniqueFd(check_syscall("socket", ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    sockaddr_in6 address = loopback_address(family, 0);
    socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    check_syscall("bind", ::bind(listener.get(), raw, size));
    check_syscall("listen", ::listen(listener.get(), 1));
    check_syscall("name", ::getsockname(listener.get(), raw, &size));
    check_syscall("connect", ::connect(client.get(), raw, size));
    accepted = UniqueFd(
        check_syscall("accept", ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }

  // As the peer's own socket has them.
  Ends peers_ends() const {
    const std::optional<Ends> ends = loopback_ends(accepted.get());
    return {.own = ends.value().other, .other = ends.value().own};
  }

  UniqueFd listener;
  UniqueFd client;
  UniqueFd accepted;
};

class SocketTableTest : public testing::TestWithParam<SocketTable::Source> {
 protected:
  SocketTable table_{GetParam()};
};

TEST_P(SocketTableTest, KnowsWhoHoldsTheOtherEnd) {
  for (const int family : {AF_INET, AF_INET6}) {
    const Connected connected(family);
    EXPECT_EQ(table_.find_holder(connected.peers_ends()), ::geteuid()) << family;
  }
}

TEST_P(SocketTableTest, KnowsAnIpv4PeerOfAnIpv6Listener) {
  const UniqueFd listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any{.sin6_family = AF_INET6};
  socklen_t size = sizeof any;
  check_syscall("bind", ::bind(listener.get(), reinterpret_cast<sockaddr*>(&any), size));
  check_syscall("listen", ::listen(listener.get(), 1));
  check_syscall("name", ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&any), &size));
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address = loopback_address(AF_INET, ntohs(any.sin6_port));
  check_syscall("connect", ::connect(client.get(), reinterpret_cast<sockaddr*>(&address),
                                     sizeof(sockaddr_in)));
  const UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::optional<Ends> ends = loopback_ends(accepted.get());
  ASSERT_TRUE(ends);
  EXPECT_EQ(table_.find_holder({.own = ends->other, .other = ends->own}), ::geteuid());
}

TEST_P(SocketTableTest, KnowsAPeerThatWillSendNoMore) {
  const Connected connected;
  check_syscall("shutdown", ::shutdown(connected.client.get(), SHUT_WR));
  EXPECT_EQ(table_.find_holder(connected.peers_ends()), ::geteuid());
}

// Such sockets are listed with the user 0.
TEST_P(SocketTableTest, TakesWhatNobodyHoldsForNobodys) {
  Connected closed;
  const Ends ends = closed.peers_ends();
  closed.client.reset();
  EXPECT_EQ(table_.find_holder(ends), std::nullopt) << "FIN_WAIT2";
  closed.accepted.reset();
  EXPECT_EQ(table_.find_holder(ends), std::nullopt) << "TIME_WAIT";

  const Connected waiting;
  const UniqueFd second(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address = loopback_address(AF_INET, waiting.peers_ends().other.port);
  check_syscall("connect", ::connect(second.get(), reinterpret_cast<sockaddr*>(&address),
                                     sizeof(sockaddr_in)));
  const std::optional<Ends> unaccepted = loopback_ends(second.get());
  ASSERT_TRUE(unaccepted);
  EXPECT_EQ(table_.find_holder({.own = unaccepted->other, .other = unaccepted->own}), std::nullopt)
      << "connected, and not accepted yet";
}

TEST_P(SocketTableTest, TakesAListenerForNoPeer) {
  const Connected connected;
  Ends ends = connected.peers_ends();
  ends.own.port = ends.other.port;
  EXPECT_EQ(table_.find_holder(ends), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Sources, SocketTableTest,
                         testing::Values(SocketTable::Source::kernel, SocketTable::Source::files),
                         [](const auto& info) {
                           return info.param == SocketTable::Source::kernel ? "Kernel" : "Files";
                         });

TEST(LoopbackEnds, AreThoseOfAConnectionThatLives) {
  Connected connected;
  ASSERT_TRUE(loopback_ends(connected.accepted.get()));
  EXPECT_EQ(loopback_ends(connected.listener.get()), std::nullopt);
  // A reset leaves what was sent before it, and no connection.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  check_syscall("linger",
                ::setsockopt(connected.client.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset));
  check_syscall("send", ::send(connected.client.get(), "x", 1, 0));
  connected.client.reset();
  EXPECT_EQ(loopback_ends(connected.accepted.get()), std::nullopt);
}

constexpr std::string_view kHeader =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";

std::string row(std::string_view state, std::string_view uid, std::string_view inode) {
  return str(kHeader, "   0: 0100007F:9C40 0100007F:1522 ", state,
             " 00000000:00000000 00:00000000 00000000 ", uid, "        0 ", inode,
             " 1 0000000000000000 20 4 30 10 -1\n");
}

TEST(SocketTableText, IsReadWithCare) {
  const std::array<std::uint8_t, 16> loopback = {0, 0, 0,    0,    0,   0, 0, 0,
                                                 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  const Ends ends{.own = {loopback, 0x9c40}, .other = {loopback, 0x1522}};
  EXPECT_EQ(find_holder_in(row("01", " 1000", "4711"), ends), 1000u);
  EXPECT_EQ(find_holder_in(row("04", "    0", "4711"), ends), 0u);
  EXPECT_EQ(find_holder_in(row("05", "    7", "4711"), ends), 7u);
  EXPECT_EQ(find_holder_in(row("06", "    0", "0"), ends), std::nullopt) << "TIME_WAIT";
  EXPECT_EQ(find_holder_in(row("06", "    0", "4711"), ends), std::nullopt);
  EXPECT_EQ(find_holder_in(row("01", "    0", "0"), ends), std::nullopt) << "nobody's";
  EXPECT_EQ(find_holder_in(row("0A", "    0", "4711"), ends), std::nullopt) << "a listener";
  EXPECT_EQ(find_holder_in(row("01", "    x", "4711"), ends), std::nullopt);
  EXPECT_EQ(find_holder_in(row("01", " 1000", "4711"), {ends.other, ends.own}), std::nullopt);
  EXPECT_EQ(find_holder_in("", ends), std::nullopt);
  EXPECT_EQ(find_holder_in("   0: 0100007F 0100007F:1522 01", ends), std::nullopt);
}

}  // namespace
}  // namespace caisson::net
