#include <csignal>

#include "contract.h"

namespace caisson::contract {

TEST_P(BackendContract, TwentyCommandsRunAtOnceInOneBox) {
  std::vector<Pending<RunResult>> commands;
  for (int i = 0; i < 20; ++i) {
    commands.push_back(begin(backend::run(box(), payload({"echo", std::to_string(i)}))));
  }
  for (int i = 0; i < 20; ++i) {
    const RunResult result = await(commands[static_cast<std::size_t>(i)]);
    EXPECT_EQ(result.out.data, std::to_string(i) + "\n");
    EXPECT_EQ(result.exit.exit_code, 0);
  }
}

TEST_P(BackendContract, FourBoxesAtOnceDoNotSeeEachOther) {
  std::vector<Pending<std::unique_ptr<Box>>> creating;
  for (int i = 0; i < 4; ++i) creating.push_back(begin(backend_->create(spec())));
  std::vector<std::unique_ptr<Box>> boxes;
  for (const auto& pending : creating) boxes.push_back(await(pending));
  for (const auto& one : boxes) {
    const RunResult before = await(backend::run(*one, payload({"cat", "/tmp/mine"})));
    EXPECT_NE(before.exit.exit_code, 0) << before.out.data;
    const RunResult write = await(backend::run(*one, shell("echo " + one->id() + " > /tmp/mine")));
    EXPECT_EQ(write.exit.exit_code, 0);
  }
  for (const auto& one : boxes) {
    const RunResult read = await(backend::run(*one, payload({"cat", "/tmp/mine"})));
    EXPECT_EQ(read.out.data, one->id() + "\n");
  }
  await(boxes[0]->destroy(0ms));
  for (std::size_t i = 1; i < boxes.size(); ++i) {
    EXPECT_TRUE(answers(*boxes[i]));
    await(boxes[i]->destroy(0ms));
  }
}

TEST_P(BackendContract, BoxSurvivesAnOutputFlood) {
  RunRequest request = payload({"flood", "0"});
  request.timeout = 2s;
  request.output_limit = 1000;
  const RunResult result = run(std::move(request));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.out.data.size(), 1000u);
  EXPECT_GT(result.out.discarded, 0u);
  EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, BoxSurvivesAnOutputThatNobodyReads) {
  const auto flood = start(box(), {kPayload, "flood", "0"});
  EXPECT_TRUE(answers(box()));
  flood->process().signal(SIGKILL, SignalTarget::group);
  EXPECT_EQ(await(flood->process().wait()).signal, SIGKILL);
}

TEST_P(BackendContract, BoxSurvivesTheHoardingOfDescriptors) {
  const auto hoard = start(box(), {kPayload, "hold-fds", "10000000"});
  EXPECT_THAT(await(hoard->read_until("\n")), testing::StartsWith("held "));
  EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, BoxSurvivesACommandThatKillsAllItCan) {
  const auto victim = start(box(), {kPayload, "sleep", "600"});
  run(shell("kill -9 -1; kill -9 1; kill -STOP 1"));
  EXPECT_EQ(await(victim->process().wait()).signal, SIGKILL);
  EXPECT_TRUE(box().alive());
  EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, BoxSurvivesCommandsThatEndBadlyOneAfterTheOther) {
  for (const char* script : {"kill -9 $$", "exit 1", "no-such-command", "echo x > /proc/1/mem"}) {
    run(shell(script));
  }
  EXPECT_TRUE(answers(box()));
}

}  // namespace caisson::contract
