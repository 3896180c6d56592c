#include "base/seldom.h"

#include <gtest/gtest.h>

namespace caisson {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Seldom, LetsOneThroughInATimeAndCountsTheOthers) {
  Seldom seldom(seconds(10));
  const Deadline begin = Clock::now();
  EXPECT_EQ(seldom.let_through(begin), 0u);
  EXPECT_EQ(seldom.let_through(begin), std::nullopt);
  EXPECT_EQ(seldom.let_through(begin + milliseconds(9999)), std::nullopt);
  EXPECT_EQ(seldom.let_through(begin + seconds(10)), 2u);
  EXPECT_EQ(seldom.let_through(begin + seconds(19)), std::nullopt);
  EXPECT_EQ(seldom.let_through(begin + seconds(60)), 1u);
  EXPECT_EQ(seldom.let_through(begin + seconds(80)), 0u);
}

}  // namespace
}  // namespace caisson
