#include "async/cancellation.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

namespace caisson {
namespace {

TEST(Cancellation, RunsEveryHandlerThatLivesInTheOrderOfTheirComing) {
  Cancellation wish;
  std::string ran;
  const Cancellation::Handler first(&wish, [&] { ran += "first "; });
  std::optional<Cancellation::Handler> gone;
  gone.emplace(&wish, [&] { ran += "gone "; });
  const Cancellation::Handler second(&wish, [&] { ran += "second "; });
  gone.reset();
  wish.cancel();
  wish.cancel();
  EXPECT_EQ(ran, "first second ");
  EXPECT_TRUE(wish.cancelled());
}

TEST(Cancellation, RunsAHandlerAtOnceThatComesTooLate) {
  Cancellation wish;
  wish.cancel();
  bool ran = false;
  const Cancellation::Handler late(&wish, [&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(Cancellation, LetsAHandlerEndItselfAndOthers) {
  Cancellation wish;
  std::string ran;
  std::optional<Cancellation::Handler> itself;
  std::optional<Cancellation::Handler> other;
  itself.emplace(&wish, [&] {
    ran += "itself ";
    other.reset();
    itself.reset();
  });
  other.emplace(&wish, [&] { ran += "other "; });
  wish.cancel();
  EXPECT_EQ(ran, "itself ");
}

TEST(Cancellation, TakesAHandlerForNobodysWish) {
  const Cancellation::Handler nobody(nullptr, [] { FAIL(); });
}

}  // namespace
}  // namespace caisson
