#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace caisson::cli {
namespace {

TEST(HumanBytes, HasOneDecimalAndAUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.0 kB");
  EXPECT_EQ(human_bytes(1'940'000), "1.9 MB");
  EXPECT_EQ(human_bytes(999'999), "1.0 MB");
  EXPECT_EQ(human_bytes(64'000'000'000), "64.0 GB");
  EXPECT_EQ(human_bytes(~0ull), "18446744.1 TB");
}

TEST(Padded, FillsUpAndNeverCuts) {
  EXPECT_EQ(padded("ab", 4), "ab  ");
  EXPECT_EQ(padded("abcd", 2), "abcd");
}

TEST(Coloured, IsPlainWithoutColours) {
  EXPECT_EQ(coloured("x", Colour::red, false), "x");
  EXPECT_EQ(coloured("x", Colour::red, true), "\x1b[31mx\x1b[0m");
}

}  // namespace
}  // namespace caisson::cli
