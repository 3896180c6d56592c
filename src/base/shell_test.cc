#include "base/shell.h"

#include <gtest/gtest.h>

namespace caisson {
namespace {

TEST(ShellQuoted, KeepsAWordWhole) {
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("x;y\n$(z)"), "'x;y\n$(z)'");
}

}  // namespace
}  // namespace caisson
