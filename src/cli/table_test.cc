#include "cli/table.h"

#include <gtest/gtest.h>

namespace caisson::cli {
namespace {

TEST(Table, MakesColumnsAsWideAsTheirWidestCell) {
  EXPECT_EQ(table_text({{"NAME", "STATE"}, {"a", "idle"}, {"longer", "busy"}}),
            "NAME    STATE\na       idle\nlonger  busy\n");
}

TEST(Table, CountsCharactersRatherThanBytes) {
  EXPECT_EQ(table_text({{"NAME", "X"}, {"größe", "1"}}), "NAME   X\ngröße  1\n");
}

TEST(Table, KeepsControlCharactersFromTheTerminal) {
  EXPECT_EQ(table_text({{"a\x1b[2J\n", "b"}}), "a\\x1b[2J\\n  b\n");
}

TEST(ShortDuration, TakesTheLargestUnitThatFits) {
  using std::chrono::seconds;
  EXPECT_EQ(short_duration(seconds(-5)), "0s");
  EXPECT_EQ(short_duration(seconds(59)), "59s");
  EXPECT_EQ(short_duration(seconds(60)), "1m");
  EXPECT_EQ(short_duration(seconds(3 * 3600 + 59)), "3h");
  EXPECT_EQ(short_duration(seconds(86400 * 4)), "4d");
}

}  // namespace
}  // namespace caisson::cli
