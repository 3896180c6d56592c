#include "net/refusals.h"

#include <gtest/gtest.h>

namespace caisson::net {
namespace {

TEST(Refusals, AreAllCounted) {
  Refusals refusals;
  const Peer peer{.name = "127.0.0.1", .uid = 65534};
  const Request request;
  for (int i = 0; i < 100; ++i) refusals.note(401, peer, request, "");
  refusals.note(403, peer, request, "");
  refusals.note(421, peer, request, "");
  refusals.note(429, peer, request, "");
  for (const int other : {200, 400, 404, 503}) refusals.note(other, peer, request, "");
  EXPECT_EQ(refusals.counts(), (Refusals::Counts{100, 1, 1, 1}));
}

TEST(Refusals, AreToldAFewAtATime) {
  Refusals refusals;
  const Deadline start = Clock::now();
  for (std::uint64_t i = 0; i < Refusals::kLines; ++i) {
    EXPECT_EQ(refusals.take_line(start + std::chrono::milliseconds(i)), 0u);
  }
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(refusals.take_line(start + Refusals::kPeriod - std::chrono::milliseconds(1)),
              std::nullopt);
  }
  EXPECT_EQ(refusals.take_line(start + Refusals::kPeriod), 1000u) << "says how many were left out";
  EXPECT_EQ(refusals.take_line(start + Refusals::kPeriod), 0u);
}

}  // namespace
}  // namespace caisson::net
