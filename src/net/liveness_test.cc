#include "net/liveness.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace caisson::net {
namespace {

using std::chrono::seconds;
using Verdict = Liveness::Verdict;

constexpr std::uint64_t kMegabyte = 1u << 20;

struct LivenessTest : testing::Test {
  // What is decided at that time, looking every few seconds until then, with a ping sent when one
  // is due.
  Verdict at(int time, Liveness::Sent sent = {}, bool listening = true) {
    const Deadline now = start + seconds(time);
    for (; looked < now; looked = std::min(now, looked + seconds(7))) liveness.look(looked);
    liveness.look(now);
    const Verdict verdict = liveness.judge(now, sent, listening);
    if (verdict == Verdict::ping) ping = liveness.next_ping(now, sent.written);
    return verdict;
  }
  Deadline start = Clock::now();
  Deadline looked = start;
  Liveness liveness{seconds(30), start};
  std::string ping;
};

TEST_F(LivenessTest, AsksAQuietPeerOnceInAnInterval) {
  EXPECT_FALSE(liveness.look(start + seconds(14)));
  EXPECT_TRUE(liveness.look(start + seconds(15)));
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

TEST_F(LivenessTest, DoesNotBlameThePeerForTimeInWhichNobodyLooked) {
  looked = start + seconds(1000);  // stopped, or the whole machine asleep
  EXPECT_EQ(at(1000), Verdict::alive);
  EXPECT_EQ(at(1030), Verdict::ping);
  looked = start + seconds(2000);
  EXPECT_NE(at(2000), Verdict::gone) << "its answer may not have been read yet";
  EXPECT_EQ(at(2030), Verdict::gone);
}

TEST(Liveness, IsNotAskedForWithoutAnInterval) {
  Liveness liveness(seconds(0), Clock::now());
  EXPECT_FALSE(liveness.look(Clock::now() + seconds(1000)));
}

}  // namespace
}  // namespace caisson::net
