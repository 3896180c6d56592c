#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/native/network.h"
#include "backend/native/network_scene.h"

// How networks come, go and find their place on the host.
namespace caisson::backend::native {
namespace {

using namespace scene;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Network, OnlyThePairsAndTheUplinkForward) {
  in_own_network([] {
    write_control_file("/proc/sys/net/ipv4/ip_forward", "0");
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    EXPECT_EQ(read_file("/proc/sys/net/ipv4/ip_forward"), "0\n");
    EXPECT_EQ(read_file("/proc/sys/net/ipv4/conf/default/forwarding"), "0\n");
    EXPECT_EQ(read_file("/proc/sys/net/ipv4/conf/up0/forwarding"), "1\n");
    EXPECT_EQ(read_file("/proc/sys/net/ipv4/conf/cs0x0/forwarding"), "1\n");
  });
}

TEST(Network, BoxGetsTheMtuOfTheUplink) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox box(network);
    Netlink inside = Netlink::borrow(box.netlink.get());
    EXPECT_EQ(get_link(inside, "eth0").mtu, 1400u);
  });
}

TEST(Network, FindsFreeNamesAndAddressesNextToThoseInUse) {
  in_own_network([] {
    const Scene scene;
    Network before(0);
    const TestBox first(before);
    const TestBox second(before);
    Network after(0);  // the same owner, started again
    const TestBox third(after);
    EXPECT_EQ(third.attachment.host_interface, "cs0x2");
    EXPECT_EQ(first.attachment.box_address, "10.213.0.1");
    EXPECT_EQ(second.attachment.box_address, "10.213.0.3");
    EXPECT_EQ(third.attachment.box_address, "10.213.0.5");
  });
}

TEST(Network, AttachPutsAFlushedTableBack) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const TestBox first(network);
    run_nft("flush ruleset");
    ASSERT_EQ(find_nat_table(0), 0u);
    const TestBox second(network);
    EXPECT_NE(find_nat_table(0), 0u);
  });
}

TEST(Network, PrepareTwiceKeepsTheTable) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    network.prepare();
    const std::uint64_t table = find_nat_table(0);
    network.prepare();
    EXPECT_EQ(find_nat_table(0), table);
  });
}

TEST(Network, RemoveDeletesTheTableAndCutsOffWhatIsLeft) {
  in_own_network([] {
    const Scene scene;
    Network network(1);
    Network neighbour(10);  // whose interfaces begin with cs1, too
    const TestBox box(network);
    const TestBox other(neighbour);
    network.remove();
    network.remove();  // nothing left to do
    EXPECT_EQ(find_nat_table(1), 0u);
    EXPECT_NE(find_nat_table(10), 0u);
    Netlink route(NETLINK_ROUTE);
    EXPECT_FALSE(get_link(route, box.attachment.host_interface).active);
    EXPECT_TRUE(get_link(route, other.attachment.host_interface).active);
  });
}

TEST(Network, SweepRemovesTheTablesOfDeadOwnersOnly) {
  in_own_network([] {
    const Scene scene;
    for (const unsigned owner : {3u, 4u, kMaxNetworkOwner}) Network(owner).prepare();
    run_nft("table inet caisson_04 {}\ntable inet caisson_4096 {}\ntable ip caisson_5 {}\n");
    EXPECT_THAT(Network::sweep([](unsigned owner) { return owner == 4; }), IsEmpty());
    std::set<unsigned> left;
    EXPECT_EQ(list_nat_tables(left), 0);
    EXPECT_THAT(left, ElementsAre(4u));
    run_nft("delete table inet caisson_04\ndelete table inet caisson_4096\n");  // untouched
  });
}

TEST(Network, SweepLeavesTheTablesOfWhoLivesAndOfBoxesThatAreThere) {
  in_own_network([] {
    const Scene scene;
    auto claim = NetworkClaim::take(3);
    Network(3).prepare();
    Network unseen(4);  // its owner holds no claim
    auto box = std::make_unique<TestBox>(unseen);
    const auto nobody = [](unsigned) { return false; };
    EXPECT_THAT(Network::sweep(nobody), ElementsAre(4u));
    Netlink route(NETLINK_ROUTE);
    EXPECT_TRUE(get_link(route, box->attachment.host_interface).active);
    EXPECT_NE(find_nat_table(3), 0u);
    EXPECT_NE(find_nat_table(4), 0u);
    claim.reset();
    EXPECT_THAT(Network::sweep(nobody), ElementsAre(4u));
    EXPECT_EQ(find_nat_table(3), 0u);
  });
}

TEST(Network, ProbeSaysWhatIsMissing) {
  in_own_network([] {
    const NetworkProbe bare = Network::probe();
    EXPECT_FALSE(bare.available);
    EXPECT_THAT(bare.reason, HasSubstr("no default IPv4 route"));
    EXPECT_THROW(Network(0).prepare(), Error);

    const Scene scene;
    const NetworkProbe whole = Network::probe();
    EXPECT_TRUE(whole.available) << whole.reason;
    EXPECT_EQ(whole.caution, "");
    std::set<unsigned> tables;
    EXPECT_EQ(list_nat_tables(tables), 0);
    EXPECT_TRUE(tables.empty());  // probing leaves nothing behind

    run_nft(
        "add table ip filter\n"
        "add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }");
    EXPECT_THAT(Network::probe().caution, HasSubstr("`ip filter FORWARD` drops"));
    EXPECT_THAT(Network::host_addresses(), testing::Contains(kHost));
  });
}

TEST(Network, FailureNamesTheOperationAndTheInterface) {
  in_own_network([] {
    const Scene scene;
    Network network(0);
    const UniqueFd no_namespace = open_file("/dev/null", O_RDONLY);
    const UniqueFd no_netlink = open_file("/dev/null", O_RDONLY);
    try {
      network.attach(no_namespace.get(), no_netlink.get());
      FAIL() << "attached to /dev/null";
    } catch (const SystemError& error) {
      EXPECT_STREQ(error.what(), "create veth cs0x0: Invalid argument");
    }
  });
}

Route unicast(const char* destination, unsigned prefix_length) {
  return {.destination = number(destination),
          .prefix_length = prefix_length,
          .table = RT_TABLE_MAIN,
          .protocol = RTPROT_STATIC,
          .type = RTN_UNICAST};
}

TEST(ChooseSubnet, TakesTheFirstThatNoRouteTouches) {
  EXPECT_EQ(choose_subnet({unicast("0.0.0.0", 0)}), number("10.213.0.0"));
  EXPECT_EQ(choose_subnet({unicast("10.213.77.0", 24)}), number("10.149.0.0"));
  EXPECT_EQ(choose_subnet({unicast("10.212.0.0", 15)}), number("10.149.0.0"));
  EXPECT_EQ(choose_subnet({unicast("10.0.0.0", 8)}), number("172.30.0.0"));
  EXPECT_EQ(choose_subnet({unicast("10.0.0.0", 8), unicast("172.16.0.0", 12)}),
            number("100.101.0.0"));
}

TEST(ChooseSubnet, TakesAHalvedDefaultRouteForADefaultRoute) {
  EXPECT_EQ(choose_subnet({unicast("0.0.0.0", 1), unicast("128.0.0.0", 1)}), number("10.213.0.0"));
}

TEST(ChooseSubnet, SeesNoConflictInBoxes) {
  Route box = unicast("10.213.0.5", 32);
  box.protocol = 205;
  Route host_end = unicast("10.213.0.4", 32);
  host_end.table = RT_TABLE_LOCAL;
  host_end.type = RTN_LOCAL;
  EXPECT_EQ(choose_subnet({box, host_end}), number("10.213.0.0"));
  EXPECT_EQ(choose_subnet({host_end}), number("10.149.0.0"));
}

TEST(ChooseSubnet, FindsNoneWhenEverythingIsTaken) {
  EXPECT_EQ(choose_subnet({unicast("0.0.0.0", 2), unicast("64.0.0.0", 2), unicast("128.0.0.0", 2),
                           unicast("192.0.0.0", 2)}),
            std::nullopt);
}

}  // namespace
}  // namespace caisson::backend::native
