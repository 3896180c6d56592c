#include "journal/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::journal {
namespace {

TEST(Crc32c, GivesThePublishedValues) {
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Crc32c, IsTheSameWithAndWithoutTheInstruction) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(crc32c(bytes), crc32c_portable(bytes));
    bytes.push_back(static_cast<char>(i * 37));
  }
}

}  // namespace
}  // namespace caisson::journal
