#include "base/random.h"

#include <gtest/gtest.h>

namespace caisson {
namespace {

TEST(RandomHex, IsTwoDigitsAByteAndNeverTheSame) {
  const std::string one = random_hex(32);
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, random_hex(32));
  EXPECT_EQ(random_hex(0), "");
}

}  // namespace
}  // namespace caisson
