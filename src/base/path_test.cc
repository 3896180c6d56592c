#include "base/path.h"

#include <gtest/gtest.h>

namespace caisson {
namespace {

TEST(NormalisePath, ResolvesDotsAndSlashes) {
  EXPECT_EQ(normalise_path("/workspace/../x/"), "/x");
  EXPECT_EQ(normalise_path("//a///./b/."), "/a/b");
  EXPECT_EQ(normalise_path("/a/b/../../c"), "/c");
}

TEST(NormalisePath, NeverLeavesTheRoot) {
  EXPECT_EQ(normalise_path("/"), "/");
  EXPECT_EQ(normalise_path("/.."), "/");
  EXPECT_EQ(normalise_path("/a/../../../etc"), "/etc");
}

TEST(NormalisePath, LeavesNamesThatOnlyLookLikeDotsAlone) {
  EXPECT_EQ(normalise_path("/..a/.b/..."), "/..a/.b/...");
}

TEST(IsWithin, HoldsForThePathItselfAndWhatLiesBelow) {
  EXPECT_TRUE(is_within("/a", "/a"));
  EXPECT_TRUE(is_within("/a/b", "/a"));
  EXPECT_TRUE(is_within("/a", "/"));
  EXPECT_TRUE(is_within("/", "/"));
}

TEST(IsWithin, IsNotFooledByACommonPrefix) {
  EXPECT_FALSE(is_within("/ab", "/a"));
  EXPECT_FALSE(is_within("/a", "/a/b"));
  EXPECT_FALSE(is_within("/", "/a"));
}

}  // namespace
}  // namespace caisson
