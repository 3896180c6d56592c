#include <csignal>

#include "contract.h"

namespace caisson::contract {

TEST_P(BackendContract, CommandThatExceedsTheMemoryLimitIsKilledAndTheBoxGoesOn) {
  const RunResult result = run(payload({"hog", "256"}));
  EXPECT_EQ(result.exit.signal, SIGKILL);
  EXPECT_GT(result.exit.oom_kills, 0u);
  EXPECT_EQ(result.out.data, "");
  EXPECT_GT(await(box().usage()).oom_kills, 0u);
  EXPECT_TRUE(answers(box()));  // and is not blamed for the one before
}

TEST_P(BackendContract, MemoryKillOfAGrandchildIsReportedThoughTheCommandSucceeds) {
  const RunResult result = run(shell(kPayload + " hog 256; exit 0"));
  EXPECT_EQ(result.exit.exit_code, 0);
  EXPECT_EQ(result.exit.signal, 0);
  EXPECT_GT(result.exit.oom_kills, 0u);
}

TEST_P(BackendContract, CommandBelowTheMemoryLimitIsLeftAlone) {
  const RunResult result = run(payload({"hog", "24"}));
  EXPECT_EQ(result.out.data, "held 24\n");
  EXPECT_EQ(result.exit.oom_kills, 0u);
}

TEST_P(BackendContract, NumberOfProcessesIsLimitedAndAFullBoxStillAnswers) {
  const auto bomb = start(box(), {kPayload, "fork-bomb", "10000"});
  const std::string line = await(bomb->read_until("\n"));
  ASSERT_TRUE(line.starts_with("forked ")) << line;
  const int forked = std::stoi(line.substr(7));
  EXPECT_GT(forked, 16);
  EXPECT_LT(forked, 32);
  EXPECT_TRUE(answers(box()));
  bomb->end_input();
  EXPECT_EQ(await(bomb->process().wait()).exit_code, 0);
  EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, UsageCountsProcesses) {
  const auto five = start(box(), {kPayload, "fork-bomb", "5"});
  await(five->read_until("\n"));
  const backend::BoxUsage usage = await(box().usage());
  EXPECT_GE(usage.processes, 6u);
  EXPECT_LT(usage.processes, 10u);
  EXPECT_EQ(usage.oom_kills, 0u);
}

}  // namespace caisson::contract
