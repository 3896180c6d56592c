#include "net/budget.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace caisson::net {
namespace {

constexpr std::size_t kMiB = 1u << 20;

class BudgetTest : public testing::Test {
 protected:
  std::shared_ptr<Share> known() {
    auto share = budget_->make_share();
    share->set_known(true);
    return share;
  }

  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>(64 * kMiB);
};

TEST_F(BudgetTest, CountsWhatIsHeldUntilItIsReleased) {
  {
    Charge charge(known());
    EXPECT_TRUE(charge.resize(kMiB));
    EXPECT_EQ(budget_->status().incoming, kMiB);
    Charge moved(std::move(charge));
    EXPECT_TRUE(moved.resize(kMiB / 2));
    EXPECT_EQ(budget_->status().incoming, kMiB / 2);
  }
  EXPECT_EQ(budget_->status().incoming, 0u);
}

TEST_F(BudgetTest, LeavesAsMuchForOthersAsOneConnectionHolds) {
  Charge charge(known());
  while (charge.resize(charge.bytes() + 64 * 1024)) {
  }
  EXPECT_LE(charge.bytes(), 24 * kMiB);
  EXPECT_GE(charge.bytes(), 23 * kMiB);
}

TEST_F(BudgetTest, HasRoomForOneMoreHoweverManyTakeAllTheyGet) {
  std::vector<Charge> greedy;
  for (int i = 0; i < 200; ++i) greedy.emplace_back(known());
  for (bool any = true; any;) {
    any = false;
    for (Charge& charge : greedy) any = charge.resize(charge.bytes() + 4096) || any;
  }
  Charge modest(known());
  EXPECT_TRUE(modest.resize(64 * 1024));
  EXPECT_LE(budget_->status().incoming, 48 * kMiB);
}

TEST_F(BudgetTest, KeepsAQuarterForAnswersAndAQuarterForRequests) {
  for (const Flow flow : {Flow::incoming, Flow::outgoing}) {
    std::vector<Charge> all;
    for (int i = 0; i < 100; ++i) {
      all.emplace_back(known(), flow);
      while (all.back().resize(all.back().bytes() + 4096)) {
      }
    }
    Charge other(known(), flow == Flow::incoming ? Flow::outgoing : Flow::incoming);
    EXPECT_TRUE(other.resize(8 * kMiB));
  }
}

TEST_F(BudgetTest, GivesStrangersTheSmallestShareAndAllOfThemAnEighth) {
  std::vector<Charge> strangers;
  for (int i = 0; i < 1000; ++i) {
    strangers.emplace_back(budget_->make_share());
    while (strangers.back().resize(strangers.back().bytes() + 4096)) {
    }
    EXPECT_LE(strangers.back().bytes(), Budget::kStranger);
  }
  EXPECT_EQ(budget_->status().incoming, 8 * kMiB);
  Charge known_one(known());
  EXPECT_TRUE(known_one.resize(16 * kMiB));
}

TEST_F(BudgetTest, WhoBecomesKnownNoLongerTakesFromStrangers) {
  std::vector<std::shared_ptr<Share>> shares;
  std::vector<Charge> charges;
  for (int i = 0; i < 200; ++i) {
    shares.push_back(budget_->make_share());
    charges.emplace_back(shares.back());
    ASSERT_TRUE(charges.back().resize(Budget::kStranger)) << i;
    shares.back()->set_known(true);
  }
}

TEST_F(BudgetTest, EvictsNobodyWhoHasOnlyJustBegunToWait) {
  const auto share = known();
  bool evicted = false;
  Charge large(share, Flow::outgoing);
  ASSERT_TRUE(large.resize(20 * kMiB));
  const Share::Waiting waiting(share.get(), [&] { evicted = true; });
  Charge other(known(), Flow::outgoing);
  EXPECT_FALSE(other.resize(20 * kMiB));
  EXPECT_FALSE(evicted);
  EXPECT_EQ(budget_->status().refused, 1u);
}

TEST_F(BudgetTest, HasRoomAtOnceWhereSlowReadersHadIt) {
  const auto share = known();
  int evictions = 0;
  Charge large(share, Flow::outgoing);
  ASSERT_TRUE(large.resize(20 * kMiB));
  const Share::Waiting waiting(
      share.get(), [&] { ++evictions; }, Clock::now() - std::chrono::seconds(10));
  Charge other(known(), Flow::outgoing);
  EXPECT_TRUE(other.resize(20 * kMiB));
  EXPECT_FALSE(large.resize(21 * kMiB));  // nothing more for who is gone
  EXPECT_EQ(evictions, 1);
  EXPECT_TRUE(large.resize(0));
  EXPECT_EQ(budget_->status().outgoing, 20 * kMiB);
}

TEST_F(BudgetTest, TakesTheLargestUnfinishedMessageFromWhomeverSendsNoMore) {
  std::vector<std::shared_ptr<Share>> shares;
  std::deque<Charge> charges;
  std::deque<Share::Unfinished> messages;
  std::vector<int> refused;
  const Deadline before = Clock::now();
  for (const std::size_t bytes : {12 * kMiB, 15 * kMiB, kMiB}) {
    const int number = static_cast<int>(shares.size());
    shares.push_back(known());
    ASSERT_TRUE(charges.emplace_back(shares.back()).resize(bytes));
    messages.emplace_back(shares.back().get(), [&refused, number] { refused.push_back(number); });
  }
  messages[2].starved(before);
  EXPECT_TRUE(refused.empty()) << "they have only just begun";
  const Deadline later = Clock::now() + std::chrono::seconds(3);
  messages[1].starved(later);
  EXPECT_TRUE(refused.empty()) << "nobody holds more";
  messages[2].starved(later);
  EXPECT_EQ(refused, std::vector<int>{1});
  EXPECT_EQ(budget_->status().incoming, 13 * kMiB) << "others have the room at once";
  messages[2].starved(later);
  messages[2].starved(later);
  EXPECT_EQ(refused, (std::vector<int>{1, 0}));
  EXPECT_EQ(budget_->status().evicted, 2u);
}

TEST_F(BudgetTest, WithoutAShareEverythingFits) {
  Charge charge;
  EXPECT_TRUE(charge.resize(1u << 30));
}

}  // namespace
}  // namespace caisson::net
