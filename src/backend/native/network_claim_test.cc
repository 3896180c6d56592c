#include "backend/native/network_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "backend/native/network.h"
#include "backend/native/network_scene.h"

namespace caisson::backend::native {
namespace {

using scene::in_own_network;
using scene::Scene;
using scene::TestBox;

constexpr auto kNobody = [](unsigned) { return false; };

TEST(NetworkClaim, ANumberIsTakenWhileAnybodyHoldsTheClaim) {
  in_own_network([] {
    auto claim = NetworkClaim::take(3);
    EXPECT_TRUE(claim);
    EXPECT_FALSE(NetworkClaim::take(3));
    EXPECT_TRUE(NetworkClaim::take(4));
    const UniqueFd kept(::fcntl(claim->fd(), F_DUPFD_CLOEXEC, 3));
    claim.reset();
    EXPECT_FALSE(NetworkClaim::take(3)) << "it was handed over";
  });
}

TEST(NetworkClaim, ANumberIsFreeWhenItsHolderIsGone) {
  in_own_network([] {
    { const auto claim = NetworkClaim::take(3); }
    EXPECT_TRUE(NetworkClaim::take(3));
  });
}

TEST(NetworkClaim, NobodyElseRemovesIt) {
  in_own_network([] {
    const auto claim = NetworkClaim::take(3);
    scene::run_nft("flush ruleset\n");
    EXPECT_FALSE(NetworkClaim::take(3));
  });
}

// Whoever comes while a holder goes finds the number taken or free, and nothing else.
TEST(NetworkClaim, ANumberThatIsJustGivenBackIsNoFailure) {
  in_own_network([] {
    const auto come_and_go = [] {
      for (int round = 0; round < 60; ++round) NetworkClaim::take(3);
    };
    std::thread other(come_and_go);
    EXPECT_NO_THROW(come_and_go());
    other.join();
    EXPECT_TRUE(NetworkClaim::take(3));
  });
}

TEST(NetworkClaim, IsOfOneNetworkNamespace) {
  in_own_network([] {
    const auto claim = NetworkClaim::take(3);
    const UniqueFd other = scene::new_netns();
    EXPECT_TRUE(scene::in_netns(other, [] { return NetworkClaim::take(3).has_value(); }));
  });
}

TEST(NetworkClaim, TheNumberOfSomebodyWhoseBoxesAreThereIsNotTaken) {
  in_own_network([] {
    const Scene scene;
    Network without_claim(0);
    const TestBox box(without_claim);
    EXPECT_EQ(Network::claim(0, kNobody).number(), 1u);
    const auto second = NetworkClaim::take(1);
    EXPECT_EQ(Network::claim(0, [](unsigned owner) { return owner == 2; }).number(), 3u);
  });
}

}  // namespace
}  // namespace caisson::backend::native
