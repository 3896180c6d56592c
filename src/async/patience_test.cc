#include "async/patience.h"

#include <gtest/gtest.h>

namespace caisson {
namespace {

using namespace std::chrono_literals;

constexpr Deadline kStart{};

// Looks on time until it is over; how long that was.
Clock::duration used_up(Patience& patience, Deadline from) {
  for (Deadline now = patience.next_look();; now = patience.next_look()) {
    if (patience.over(now)) return now - from;
  }
}

TEST(Patience, IsOverAfterTheTimeThatIsAllowed) {
  Patience patience(1s, kStart);
  EXPECT_EQ(used_up(patience, kStart), 1s);
}

TEST(Patience, DoesNotCountTimeInWhichTheMachineStoodStill) {
  Patience patience(1s, kStart);
  EXPECT_FALSE(patience.over(kStart + 1h));
  EXPECT_GT(used_up(patience, kStart + 1h), 900ms);
}

TEST(Patience, OfALoopThatIsAlwaysLateEndsAllTheSame) {
  Patience patience(1s, kStart);
  Deadline now = kStart;
  int looks = 0;
  do {
    now += 10s;
    ++looks;
  } while (!patience.over(now));
  EXPECT_LT(looks, 100);
}

}  // namespace
}  // namespace caisson
