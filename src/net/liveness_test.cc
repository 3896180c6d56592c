#include "net/liveness.h"

#include <gtest/gtest.h>

namespace caisson::net {
namespace {

using std::chrono::seconds;
using Verdict = Liveness::Verdict;

constexpr std::uint64_t kMegabyte = 1u << 20;

struct LivenessTest : testing::Test {
  // What is decided at that time, with a ping sent when one is due.
  Verdict at(int time, Liveness::Sent sent = {}, bool listening = true) {
    const Deadline now = start + seconds(time);
    const Verdict verdict = liveness.judge(now, sent, listening);
    if (verdict == Verdict::ping) ping = liveness.next_ping(now, sent.written);
    return verdict;
  }
  Deadline start = Clock::now();
  Liveness liveness{seconds(30), start};
  std::string ping;
};

TEST_F(LivenessTest, AsksAQuietPeerOnceInAnInterval) {
  EXPECT_FALSE(liveness.quiet(start + seconds(14)));
  EXPECT_TRUE(liveness.quiet(start + seconds(15)));
  EXPECT_EQ(at(29), Verdict::alive);
  EXPECT_EQ(at(30), Verdict::ping);
  EXPECT_EQ(at(31), Verdict::alive);
  liveness.heard(start + seconds(31));
  EXPECT_EQ(at(60), Verdict::alive);
  EXPECT_EQ(at(61), Verdict::ping);
}

TEST_F(LivenessTest, GivesUpAPeerThatLetsNothingBeHeardForTwoIntervals) {
  EXPECT_EQ(at(30), Verdict::ping);
  EXPECT_EQ(at(59), Verdict::alive);
  EXPECT_EQ(at(60), Verdict::gone);
}

TEST_F(LivenessTest, DoesNotTakeTheAcknowledgementOfAPingForLife) {
  EXPECT_EQ(at(30, {.written = 0, .queued = 0}), Verdict::ping);
  EXPECT_EQ(at(31, {.written = 10, .queued = 10}), Verdict::alive);
  EXPECT_EQ(at(32, {.written = 10, .queued = 0}), Verdict::alive);
  EXPECT_EQ(at(60, {.written = 10, .queued = 0}), Verdict::gone);
}

TEST_F(LivenessTest, WaitsForAPeerThatTakesLittleButSomething) {
  std::uint64_t queued = 8 * kMegabyte;
  for (int time = 0; time < 4000; time += 64) {
    EXPECT_NE(at(time, {.written = 9 * kMegabyte, .queued = queued}), Verdict::gone) << time;
    queued -= 64u << 10;
  }
}

TEST_F(LivenessTest, GivesUpAPeerThatTakesNothingInTheEnd) {
  const Liveness::Sent stuck{.written = 9 * kMegabyte, .queued = kMegabyte};
  EXPECT_NE(at(61, stuck), Verdict::gone);
  EXPECT_NE(at(179, stuck), Verdict::gone);
  EXPECT_EQ(at(180, stuck), Verdict::gone);
}

TEST_F(LivenessTest, KnowsFromAPongWhatHasBeenRead) {
  const Liveness::Sent sent{.written = kMegabyte, .queued = 0};
  EXPECT_EQ(at(30, sent), Verdict::ping);
  liveness.pong("something else");
  liveness.heard(start + seconds(31));
  EXPECT_EQ(at(92, sent), Verdict::ping);
  liveness.pong(ping);
  EXPECT_EQ(at(93, sent), Verdict::gone);
}

TEST_F(LivenessTest, DoesNotJudgeAPeerThatIsNotListenedTo) {
  EXPECT_EQ(at(100, {}, false), Verdict::alive);
  EXPECT_EQ(at(1000, {}, false), Verdict::alive);
  EXPECT_EQ(at(1059, {}, true), Verdict::ping);
  const Liveness::Sent stuck{.written = kMegabyte, .queued = kMegabyte};
  EXPECT_EQ(at(1300, stuck, false), Verdict::gone);
}

TEST(Liveness, IsNotAskedForWithoutAnInterval) {
  const Liveness liveness(seconds(0), Clock::now());
  EXPECT_FALSE(liveness.quiet(Clock::now() + seconds(1000)));
}

}  // namespace
}  // namespace caisson::net
