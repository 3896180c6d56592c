#pragma once
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <nftables/libnftables.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "backend/native/network.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

// What the tests of the network share: a host, a world and boxes in namespaces of their own.
namespace caisson::backend::native::scene {

inline constexpr int kSkipped = 77;
inline constexpr int kBound = 5000;  // ms; how long anything that does come may take
inline constexpr std::uint16_t kPort = 4321;
inline constexpr const char* kHost = "203.0.113.2";
inline constexpr const char* kWorld = "203.0.113.1";
inline constexpr const char* kMetadata = "169.254.169.254";

inline std::uint32_t number(const char* address) {
  return ntohl(::inet_addr(address));
}

inline UniqueFd this_netns() {
  return open_file("/proc/thread-self/ns/net", O_RDONLY);
}

inline void enter(const UniqueFd& netns) {
  check_syscall("enter namespace", ::setns(netns.get(), CLONE_NEWNET));
}

template <typename Function>
auto in_netns(const UniqueFd& netns, Function function) {
  const UniqueFd home = this_netns();
  enter(netns);
  auto result = function();
  enter(home);
  return result;
}

inline UniqueFd new_netns() {
  const UniqueFd home = this_netns();
  check_syscall("make namespace", ::unshare(CLONE_NEWNET));
  UniqueFd made = this_netns();
  enter(home);
  return made;
}

inline sockaddr_in endpoint(const std::string& address, std::uint16_t port = kPort) {
  return {.sin_family = AF_INET,
          .sin_port = htons(port),
          .sin_addr = {.s_addr = ::inet_addr(address.c_str())}};
}

inline UniqueFd bound_socket(const UniqueFd& netns, int type, const std::string& address,
                             std::uint16_t port = kPort) {
  return in_netns(netns, [&] {
    UniqueFd fd(check_syscall("socket", ::socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
    const sockaddr_in local = endpoint(address, port);
    check_syscall(str("bind ", address),
                  ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local));
    return fd;
  });
}

inline bool wait_for(const UniqueFd& fd, short events, int timeout_ms = kBound) {
  pollfd entry{.fd = fd.get(), .events = events, .revents = 0};
  return check_syscall("poll", ::poll(&entry, 1, timeout_ms)) > 0;
}

// The sender's address and the text, "203.0.113.2 hello"; empty when nothing came.
inline std::string receive(const UniqueFd& fd, int timeout_ms) {
  if (!wait_for(fd, POLLIN, timeout_ms)) return "";
  char text[64];
  sockaddr_in sender{};
  socklen_t size = sizeof sender;
  const ssize_t length = check_syscall(
      "recvfrom",
      ::recvfrom(fd.get(), text, sizeof text, 0, reinterpret_cast<sockaddr*>(&sender), &size));
  return str(format_address(ntohl(sender.sin_addr.s_addr)), " ",
             std::string_view(text, static_cast<std::size_t>(length)));
}

// False when the kernel refuses to send at all, which is as good as a lost packet here.
inline bool send_text(const UniqueFd& fd, const sockaddr_in& to, std::string_view text) {
  return ::sendto(fd.get(), text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                  sizeof to) >= 0;
}

struct TestBox {
  UniqueFd netns = new_netns();
  UniqueFd netlink = in_netns(netns, [] {
    return UniqueFd(
        check_syscall("socket", ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)));
  });
  Attachment attachment;

  explicit TestBox(Network& network) : attachment(network.attach(netns.get(), netlink.get())) {}
};

// This process's namespace plays the host: an uplink to a "world", which is its default gateway and
// also has the metadata address. Nothing outside of these namespaces is touched.
struct Scene {
  UniqueFd host = this_netns();
  UniqueFd world = new_netns();

  Scene() {
    Netlink route(NETLINK_ROUTE);
    route.watch_links();
    create_veth(route, {"up0", {2, 0, 0, 0, 0, 1}}, {"w0", {2, 0, 0, 0, 0, 2}}, world.get(), 1400);
    in_netns(world, [] {
      Netlink inside(NETLINK_ROUTE);
      const Link w0 = get_link(inside, "w0");
      set_link_up(inside, w0);
      add_address(inside, w0, number(kWorld), 24, PrefixRoute::add);
      add_address(inside, w0, number(kMetadata), 32, PrefixRoute::omit);
      add_default_route(inside, w0, number(kHost));
      return 0;
    });
    const Link up0 = get_link(route, "up0");
    set_link_up(route, get_link(route, "lo"));
    set_link_up(route, up0);
    add_address(route, up0, number(kHost), 24, PrefixRoute::add);
    add_default_route(route, up0, number(kWorld));
    wait_until_active(route, up0, std::chrono::milliseconds(kBound));
    in_netns(world, [] {
      Netlink inside(NETLINK_ROUTE);
      inside.watch_links();
      wait_until_active(inside, get_link(inside, "w0"), std::chrono::milliseconds(kBound));
      return 0;
    });
  }
};

inline void run_nft(const std::string& commands) {
  nft_ctx* context = nft_ctx_new(NFT_CTX_DEFAULT);
  const int result = nft_run_cmd_from_buffer(context, commands.c_str());
  nft_ctx_free(context);
  ASSERT_EQ(result, 0) << commands;
}

// Runs a test in a child with namespaces of its own. On one processor packets keep their order:
// when a later one has arrived, an earlier one that has not was dropped, and no test need wait for
// nothing.
template <typename Body>
void in_own_network(Body body) {
  std::fflush(nullptr);
  const pid_t child = check_syscall("fork", ::fork());
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) < 0) ::_exit(kSkipped);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
    try {
      check_syscall("sched_setaffinity", ::sched_setaffinity(0, sizeof one, &one));
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  check_syscall("waitpid", ::waitpid(child, &status, 0));
  ASSERT_TRUE(WIFEXITED(status)) << "status " << status;
  if (WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "needs root: cannot make network namespaces";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "see the failures above";
}

}  // namespace caisson::backend::native::scene
