#include "daemon/room.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace caisson::daemon {
namespace {

TEST(Room, TheSoftLimitOfDescriptorsBecomesTheHardOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(raise_descriptor_limit(), before.rlim_max);
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Room, FiveThousandSessionsFitIntoTwentyThousandDescriptors) {
  EXPECT_GE(sessions_that_fit(20'000, 1024), 5000u);
  EXPECT_LT(sessions_that_fit(1024, 0), 300u);
  EXPECT_EQ(sessions_that_fit(1024, 1024), 0u);
}

}  // namespace
}  // namespace caisson::daemon
