#include "session/tenancy.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace caisson::session {
namespace {

std::string sentence_of(const auto& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::forbidden);
    return error.what();
  }
}

TEST(Tenancy, NamesWorkspacesAsLangBotDoes) {
  EXPECT_EQ(workspace_namespace("inst", "ws"), "ws-108378aeed2d7cca4480d35e");
  EXPECT_EQ(workspace_namespace(" inst ", "ws2\n"), "ws-196c9c22232cb25bbb6bb1e5");
  EXPECT_EQ(workspace_namespace("inst", "ws3"), "ws-86995e5d104ca92415ec9779");
  EXPECT_EQ(placement_prefix({"inst", "ws", 12}), "ws-108378aeed2d7cca4480d35e-g12-");
}

TEST(Tenancy, MakesNamesSafeAsLangBotDoes) {
  EXPECT_EQ(safe_name("a b/c:d é"), "a-b-c-d");
  EXPECT_EQ(safe_name("  A_b.c-9 "), "A_b.c-9");
  EXPECT_EQ(safe_name("a - b"), "a---b");
  EXPECT_EQ(safe_name("--x--"), "x");
  EXPECT_EQ(safe_name("é"), "");
  EXPECT_EQ(safe_name(" "), "");
}

TEST(Tenancy, FindsWhoseASessionIs) {
  const auto placement = find_placement("ws-108378aeed2d7cca4480d35e-g12-a-b");
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->name_space, "ws-108378aeed2d7cca4480d35e");
  EXPECT_EQ(placement->generation, 12);
  EXPECT_EQ(placement->name, "a-b");
  for (const char* other : {"", "a", "ws-", "ws-108378aeed2d7cca4480d35e",
                            "ws-108378aeed2d7cca4480d35e-g1", "ws-108378aeed2d7cca4480d35e-g1-",
                            "ws-108378aeed2d7cca4480d35e-g01-a", "ws-108378aeed2d7cca4480d35e-g0-a",
                            "ws-108378aeed2d7cca4480d35e-g+1-a", "ws-108378aeed2d7cca4480d35e-g-a",
                            "ws-108378AEED2d7cca4480d35e-g1-a", "ws-108378aeed2d7cca4480d35e-h1-a",
                            "ws-108378aeed2d7cca4480d35e-g99999999999999999999-a"}) {
    EXPECT_FALSE(find_placement(other)) << other;
  }
}

TEST(GenerationFence, LetsNobodyBackWhoHasBeenReplaced) {
  GenerationFence fence;
  EXPECT_TRUE(fence.advance("w", 2, 10));
  EXPECT_FALSE(fence.advance("w", 2, 10));
  EXPECT_TRUE(fence.advance("w", 3, 10));
  EXPECT_EQ(sentence_of([&] { fence.advance("w", 2, 10); }), "Stale Box placement generation");
  EXPECT_EQ(sentence_of([&] { fence.check("w", 2); }), "Stale Box placement generation");
  EXPECT_EQ(sentence_of([&] { fence.check("w", 3); }), "");
  EXPECT_EQ(fence.find("w"), 3);
  EXPECT_EQ(fence.find("v"), std::nullopt);
}

TEST(GenerationFence, IsBounded) {
  GenerationFence fence;
  fence.advance("a", 1, 1);
  EXPECT_EQ(sentence_of([&] { fence.advance("b", 1, 1); }),
            "Box generation fence capacity reached; refusing an unbounded Workspace allocation");
  EXPECT_TRUE(fence.advance("a", 2, 1));
}

}  // namespace
}  // namespace caisson::session
