#include "backend/native/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/native/network_scene.h"

// What passes between a box, the host and the world.
namespace caisson::backend::native {
namespace {

using namespace scene;
using testing::HasSubstr;
using testing::Not;

// What a box may try, and the socket that would hear of it.
struct Target {
  std::string name;
  sockaddr_in to;
  UniqueFd listener;
};

std::vector<Target> forbidden_targets(const Scene& scene, const TestBox& box,
                                      const TestBox& other) {
  std::vector<Target> targets;
  const auto add = [&](const char* name, const std::string& address, const UniqueFd& netns) {
    targets.push_back({name, endpoint(address), bound_socket(netns, SOCK_DGRAM, address)});
  };
  add("the host's uplink address", kHost, scene.host);
  add("the host's end of the pair", box.attachment.gateway, scene.host);
  add("the host's end of another pair", other.attachment.gateway, scene.host);
  add("another box", other.attachment.box_address, other.netns);
  add("the metadata service", kMetadata, scene.world);
  return targets;
}

// The box's own kernel keeps them back as well: see RefusesMetadataServicesAtOnce.
void forget_routes_of_metadata(const TestBox& box) {
  Netlink inside = Netlink::borrow(box.netlink.get());
  for (const AddressRange& range : kMetadataServices) {
    NetlinkRequest request("remove route", RTM_DELROUTE, 0,
                           rtmsg{.rtm_family = AF_INET,
                                 .rtm_dst_len = static_cast<std::uint8_t>(range.prefix_length),
                                 .rtm_table = RT_TABLE_MAIN,
                                 .rtm_scope = RT_SCOPE_NOWHERE});
    inside.execute(request.number(RTA_DST, htonl(range.first)));
  }
}

TEST(Network, RefusesMetadataServicesAtOnce) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    for (const char* address : {kMetadata, "169.254.170.2", "100.100.100.200"}) {
      for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
        const UniqueFd client = bound_socket(box.netns, type, "0.0.0.0", 0);
        const sockaddr_in to = endpoint(address, 80);
        EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), -1);
        EXPECT_EQ(errno, EACCES) << address;
      }
    }
  });
}

TEST(Network, TheTableKeepsABoxThatForgetsItsRoutesFromMetadataServices) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    forget_routes_of_metadata(box);
    const UniqueFd service = bound_socket(scene.world, SOCK_DGRAM, kMetadata);
    const UniqueFd world = bound_socket(scene.world, SOCK_DGRAM, kWorld);
    const UniqueFd sender = bound_socket(box.netns, SOCK_DGRAM, "0.0.0.0", 0);
    ASSERT_TRUE(send_text(sender, endpoint(kMetadata), "probe"));
    ASSERT_TRUE(send_text(sender, endpoint(kWorld), "after"));
    EXPECT_EQ(receive(world, kBound), str(kHost, " after"));
    EXPECT_EQ(receive(service, 0), "");
  });
}

unsigned long tracked_connections() {
  return std::stoul(read_file("/proc/sys/net/netfilter/nf_conntrack_count"));
}

// Each from a port of its own to a port of its own; all of them are new to the kernel.
void send_from_many_ports(const TestBox& box, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    const UniqueFd sender = bound_socket(box.netns, SOCK_DGRAM, "0.0.0.0", 0);
    send_text(sender, endpoint(kWorld, static_cast<std::uint16_t>(10000 + i % 50000)), "x");
  }
}

TEST(Network, BoundsTheConnectionsThatTheHostRemembersForABox) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    const TestBox other(network);
    const auto size = std::stoull(read_file("/proc/sys/net/netfilter/nf_conntrack_max"));
    const ConnectionLimits limits = connection_limits(size);
    const unsigned long before = tracked_connections();
    send_from_many_ports(box, 4 * limits.open);
    EXPECT_GE(tracked_connections() - before, limits.open / 2);
    EXPECT_LE(tracked_connections() - before, limits.open + 16);  // and a few of other origin
    // Another box is as free as before, and so is a connection that stands.
    const UniqueFd world = bound_socket(scene.world, SOCK_DGRAM, kWorld);
    const UniqueFd sender = bound_socket(other.netns, SOCK_DGRAM, "0.0.0.0", 0);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(send_text(sender, endpoint(kWorld), "after"));
      EXPECT_EQ(receive(world, kBound), str(kHost, " after"));
    }
  });
}

TEST(Network, LetsAStandingConnectionOfABoxGoOnThatMayHaveNoMore) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    const UniqueFd world = bound_socket(scene.world, SOCK_DGRAM, kWorld);
    const UniqueFd standing = bound_socket(box.netns, SOCK_DGRAM, "0.0.0.0", 0);
    ASSERT_TRUE(send_text(standing, endpoint(kWorld), "first"));
    ASSERT_EQ(receive(world, kBound), str(kHost, " first"));
    const auto size = std::stoull(read_file("/proc/sys/net/netfilter/nf_conntrack_max"));
    send_from_many_ports(box, 2 * connection_limits(size).open);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(send_text(standing, endpoint(kWorld), "more"));
      EXPECT_EQ(receive(world, kBound), str(kHost, " more"));
    }
  });
}

TEST(ConnectionLimits, AreAShareOfTheKernelsTable) {
  for (const std::uint64_t size : {16384u, 65536u, 262144u, 1048576u}) {
    const ConnectionLimits limits = connection_limits(size);
    EXPECT_LE(limits.open + 120u * limits.new_per_second, std::max<std::uint64_t>(size / 16, 1024));
    EXPECT_GE(limits.open, 256u);
    EXPECT_GE(limits.new_per_second, 6u);
  }
  EXPECT_EQ(connection_limits(262144), (ConnectionLimits{.open = 4096, .new_per_second = 102}));
  EXPECT_EQ(connection_limits(0), connection_limits(16384));
}

TEST(Network, BoxReachesTheWorldBehindTheHostsAddress) {
  in_own_network([] {
    const Scene scene;
    Network network(7);
    const TestBox box(network);
    EXPECT_EQ(box.attachment.host_interface, "cs7x0");

    const UniqueFd server = bound_socket(scene.world, SOCK_STREAM, kWorld);
    check_syscall("listen", ::listen(server.get(), 1));
    const UniqueFd client = bound_socket(box.netns, SOCK_STREAM, "0.0.0.0", 0);
    const sockaddr_in to = endpoint(kWorld);
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), -1);
    ASSERT_EQ(errno, EINPROGRESS);
    ASSERT_TRUE(wait_for(server, POLLIN));
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    const UniqueFd accepted(check_syscall(
        "accept",
        ::accept4(server.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC)));
    EXPECT_EQ(format_address(ntohl(peer.sin_addr.s_addr)), kHost);

    check_syscall("send", ::send(accepted.get(), "answer", 6, 0));
    ASSERT_TRUE(wait_for(client, POLLIN));
    char text[16];
    EXPECT_EQ(::recv(client.get(), text, sizeof text, 0), 6);
  });
}

TEST(Network, BoxReachesNeitherTheHostNorItsNeighbours) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    Network foreign(1);
    const TestBox box(network);
    for (Network* owner : {&network, &foreign}) {
      const TestBox other(*owner);
      const UniqueFd sender = bound_socket(box.netns, SOCK_DGRAM, "0.0.0.0", 0);
      const UniqueFd world = bound_socket(scene.world, SOCK_DGRAM, kWorld);
      for (const Target& target : forbidden_targets(scene, box, other)) {
        send_text(sender, target.to, "probe");
        ASSERT_TRUE(send_text(sender, endpoint(kWorld), "after"));
        EXPECT_EQ(receive(world, kBound), str(kHost, " after"));
        EXPECT_EQ(receive(target.listener, 0), "") << target.name;
      }
    }
  });
}

TEST(Network, OnlyTheTableKeepsThoseProbesBack) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    const TestBox other(network);
    run_nft("delete table inet caisson_0");
    forget_routes_of_metadata(box);
    const UniqueFd sender = bound_socket(box.netns, SOCK_DGRAM, "0.0.0.0", 0);
    for (const Target& target : forbidden_targets(scene, box, other)) {
      ASSERT_TRUE(send_text(sender, target.to, "probe"));
      EXPECT_EQ(receive(target.listener, kBound), str(box.attachment.box_address, " probe"))
          << target.name;
    }
  });
}

TEST(Network, BoxDoesNotReachTheHostsLoopback) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    // As hostile as can be: the box sends packets for 127.0.0.9 to its gateway, and the host was
    // set up to take them.
    constexpr const char* kAllRouteLocalnet = "/proc/sys/net/ipv4/conf/all/route_localnet";
    write_control_file(kAllRouteLocalnet, "1");
    in_netns(box.netns, [&] {
      write_control_file(kAllRouteLocalnet, "1");
      Netlink inside(NETLINK_ROUTE);
      NetlinkRequest request("add route", RTM_NEWROUTE, NLM_F_CREATE,
                             rtmsg{.rtm_family = AF_INET,
                                   .rtm_dst_len = 32,
                                   .rtm_table = RT_TABLE_MAIN,
                                   .rtm_type = RTN_UNICAST});
      request.number(RTA_DST, ::inet_addr("127.0.0.9"));
      request.number(RTA_GATEWAY, ::inet_addr(box.attachment.gateway.c_str()));
      inside.execute(request);
      // The box's own idea that all of 127/8 is local has to go first.
      NetlinkRequest forget("remove 127/8", RTM_DELADDR, 0,
                            ifaddrmsg{.ifa_family = AF_INET, .ifa_prefixlen = 8, .ifa_index = 1});
      inside.execute(forget.number(IFA_LOCAL, htonl(INADDR_LOOPBACK)));
      return 0;
    });
    const UniqueFd loopback = bound_socket(scene.host, SOCK_DGRAM, "127.0.0.9");
    const UniqueFd world = bound_socket(scene.world, SOCK_DGRAM, kWorld);
    const UniqueFd sender = bound_socket(box.netns, SOCK_DGRAM, box.attachment.box_address);
    ASSERT_TRUE(send_text(sender, endpoint("127.0.0.9"), "probe"));
    ASSERT_TRUE(send_text(sender, endpoint(kWorld), "after"));
    EXPECT_EQ(receive(world, kBound), str(kHost, " after"));
    EXPECT_EQ(receive(loopback, 0), "");

    run_nft("flush ruleset");  // the attempt itself works
    ASSERT_TRUE(send_text(sender, endpoint("127.0.0.9"), "probe"));
    EXPECT_EQ(receive(loopback, kBound), str(box.attachment.box_address, " probe"));
  });
}

TEST(Network, ForgedSourceIsDropped) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    const TestBox other(network);
    const UniqueFd world = bound_socket(scene.world, SOCK_DGRAM, kWorld);
    const UniqueFd honest = bound_socket(box.netns, SOCK_DGRAM, "0.0.0.0", 0);
    ASSERT_TRUE(
        send_text(honest, endpoint(kWorld), "first"));  // so that the gateway's MAC is known
    ASSERT_EQ(receive(world, kBound), str(kHost, " first"));
    for (const std::string& forged : {other.attachment.box_address, box.attachment.gateway,
                                      std::string(kHost), std::string("198.51.100.9")}) {
      in_netns(box.netns, [&] {
        Netlink inside(NETLINK_ROUTE);
        add_address(inside, get_link(inside, "eth0"), number(forged.c_str()), 32,
                    PrefixRoute::omit);
        return 0;
      });
      const UniqueFd liar = bound_socket(box.netns, SOCK_DGRAM, forged);
      send_text(liar, endpoint(kWorld), "forged");
      ASSERT_TRUE(send_text(honest, endpoint(kWorld), "honest"));
      EXPECT_EQ(receive(world, kBound), str(kHost, " honest")) << forged;
    }
  });
}

TEST(Network, WorldReachesABoxOnlyWithAnswers) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    const UniqueFd inside = bound_socket(box.netns, SOCK_DGRAM, "0.0.0.0");
    const UniqueFd world = bound_socket(scene.world, SOCK_DGRAM, kWorld);
    const UniqueFd intruder = bound_socket(scene.world, SOCK_DGRAM, kWorld, kPort + 1);
    ASSERT_TRUE(send_text(inside, endpoint(kWorld), "question"));
    ASSERT_EQ(receive(world, kBound), str(kHost, " question"));
    ASSERT_TRUE(send_text(intruder, endpoint(box.attachment.box_address), "intrusion"));
    ASSERT_TRUE(send_text(world, endpoint(kHost), "answer"));
    EXPECT_EQ(receive(inside, kBound), str(kWorld, " answer"));
    EXPECT_EQ(receive(inside, 0), "");
  });
}

TEST(Network, ThereIsNoIpv6BetweenBoxAndHost) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    EXPECT_THAT(read_file("/proc/thread-self/net/if_inet6"), Not(HasSubstr("cs0x")));
    const auto read_addresses = [] { return read_file("/proc/thread-self/net/if_inet6"); };
    EXPECT_THAT(in_netns(box.netns, read_addresses), Not(HasSubstr("eth0")));

    // A box that gives itself an address and speaks to every neighbour is not heard either.
    UniqueFd host(
        check_syscall("socket", ::socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
    const sockaddr_in6 any{.sin6_family = AF_INET6, .sin6_port = htons(kPort)};
    check_syscall("bind", ::bind(host.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any));
    const UniqueFd sender = in_netns(box.netns, [&] {
      Netlink inside(NETLINK_ROUTE);
      const auto eth0 = static_cast<std::uint32_t>(get_link(inside, "eth0").index);
      in6_addr address{};
      ::inet_pton(AF_INET6, "fe80::b0c", &address);
      NetlinkRequest request(
          "add fe80::b0c", RTM_NEWADDR, NLM_F_CREATE,
          ifaddrmsg{.ifa_family = AF_INET6, .ifa_prefixlen = 64, .ifa_index = eth0});
      request.bytes(IFA_LOCAL, &address, sizeof address).number(IFA_FLAGS, IFA_F_NODAD);
      inside.execute(request);
      UniqueFd fd(check_syscall("socket", ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
      sockaddr_in6 all{.sin6_family = AF_INET6, .sin6_port = htons(kPort)};
      all.sin6_scope_id = eth0;
      ::inet_pton(AF_INET6, "ff02::1", &all.sin6_addr);
      check_syscall("sendto", ::sendto(fd.get(), "probe", 5, 0,
                                       reinterpret_cast<const sockaddr*>(&all), sizeof all));
      return fd;
    });
    const UniqueFd world = bound_socket(scene.world, SOCK_DGRAM, kWorld);
    const UniqueFd after = bound_socket(box.netns, SOCK_DGRAM, "0.0.0.0", 0);
    ASSERT_TRUE(send_text(after, endpoint(kWorld), "after"));
    EXPECT_EQ(receive(world, kBound), str(kHost, " after"));
    EXPECT_FALSE(wait_for(host, POLLIN, 0));
  });
}

}  // namespace
}  // namespace caisson::backend::native
