#include "backend/native/netlink_census.h"

#include <gtest/gtest.h>

namespace caisson::backend::native {
namespace {

TEST(NetlinkBytes, SumsWhatWaitsInTheSocketsOfATable) {
  EXPECT_EQ(netlink_bytes("sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks\n"
                          "00000000c9d8bfdf 0   0          00000000 0        0        0     2\n"
                          "00000000c9d8bfe0 0   4711       00000000 213248   0        0     2\n"
                          "00000000c9d8bfe1 0   4712       00000000 1000     9        0     2\n"),
            214'248u);
  EXPECT_EQ(netlink_bytes(""), 0u);
}

}  // namespace
}  // namespace caisson::backend::native
