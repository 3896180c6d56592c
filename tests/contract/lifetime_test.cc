#include <csignal>
#include <set>

#include "contract.h"

namespace caisson::contract {

TEST_P(BackendContract, SignalReachesTheProcess) {
  const auto sleeper = start(box(), {kPayload, "sleep", "600"});
  sleeper->process().signal(SIGTERM, SignalTarget::process);
  EXPECT_EQ(await(sleeper->process().wait()).signal, SIGTERM);
}

TEST_P(BackendContract, SignalToTheGroupReachesItsChildren) {
  const std::string script = kPayload + " sleep 600 & echo ready; " + kPayload + " sleep 600";
  const auto family = start(box(), {"/bin/sh", "-c", script});
  await(family->read_until("ready\n"));
  family->process().signal(SIGKILL, SignalTarget::group);
  EXPECT_EQ(await(family->process().wait()).signal, SIGKILL);
  EXPECT_EQ(await(family->read_to_end()), "");  // ends because the child in the background is gone
}

TEST_P(BackendContract, ProcessThatIgnoresTermIsEndedByKillOnly) {
  const auto stubborn = start(box(), {kPayload, "ignore-term"});
  await(stubborn->read_until("ready\n"));
  stubborn->process().signal(SIGTERM, SignalTarget::process);
  stubborn->process().signal(SIGKILL, SignalTarget::process);
  EXPECT_EQ(await(stubborn->process().wait()).signal, SIGKILL);
}

TEST_P(BackendContract, SignalToAProcessThatHasEndedIsNoError) {
  const auto ended = start(box(), {kPayload, "exit", "0"});
  await(ended->process().wait());
  ended->process().signal(SIGTERM, SignalTarget::process);
  ended->process().signal(SIGTERM, SignalTarget::group);
  EXPECT_TRUE(answers(box()));
}

TEST_P(BackendContract, ProcessesHaveNumbersOfTheirOwn) {
  std::set<std::int64_t> pids;
  for (int i = 0; i < 3; ++i) {
    const auto process = start(box(), {kPayload, "sleep", "600"});
    EXPECT_GT(process->process().pid(), 1);
    pids.insert(process->process().pid());
  }
  EXPECT_EQ(pids.size(), 3u);
}

TEST_P(BackendContract, DroppingAProcessDoesNotEndIt) {
  auto process = start(box(), {"/bin/sh", "-c", "cat; echo ended > /workspace/f; echo done"});
  process->set_process(nullptr);
  process->end_input();
  EXPECT_EQ(await(process->read_until("done\n")), "done\n");
  EXPECT_EQ(read_host_file(workspace() / "f"), "ended\n");
}

TEST_P(BackendContract, DestroyEndsProcessesAndTheirWaiters) {
  const auto sleeper = start(box(), {kPayload, "sleep", "600"});
  const auto waiter = begin(sleeper->process().wait());
  const auto runner = begin(backend::run(box(), payload({"sleep", "600"})));
  EXPECT_TRUE(box().alive());
  await(box().destroy(0ms));
  EXPECT_FALSE(box().alive());
  EXPECT_EQ(code_of(waiter), ErrorCode::box_lost);
  EXPECT_EQ(code_of(runner), ErrorCode::box_lost);
  EXPECT_EQ(await(sleeper->read_to_end()), "");
}

TEST_P(BackendContract, DestroyedBoxStartsNothingAndCanBeDestroyedAgain) {
  await(box().destroy(0ms));
  await(box().destroy(0ms));
  await(box().destroy(5s));
  EXPECT_FALSE(box().alive());
  EXPECT_EQ(code_of(backend::run(box(), payload({"exit", "0"}))), ErrorCode::box_lost);
}

TEST_P(BackendContract, DestroyTwiceAtOnceEndsTwice) {
  start(box(), {kPayload, "ignore-term"});
  auto first = begin(box().destroy(50ms));
  auto second = begin(box().destroy(0ms));
  await(first);
  await(second);
  EXPECT_FALSE(box().alive());
}

TEST_P(BackendContract, DestroyAsksBeforeItKills) {
  // The child says that it runs: a child of the shell that is not its own program yet would take
  // the signal in the shell's handler, and lose it.
  const std::string script =
      "trap 'echo bye > /workspace/bye; exit 0' TERM; " + kPayload + " fork-bomb 0";
  const auto polite = start(box(), {"/bin/sh", "-c", script});
  await(polite->read_until("forked 0\n"));
  await(box().destroy(30s));
  EXPECT_EQ(read_host_file(workspace() / "bye"), "bye\n");
}

TEST_P(BackendContract, DestroyKillsAfterTheGraceWhatIgnoresTerm) {
  const auto stubborn = start(box(), {kPayload, "ignore-term"});
  await(stubborn->read_until("ready\n"));
  const Deadline before = Clock::now();
  await(box().destroy(200ms));
  EXPECT_GE(Clock::now() - before, 200ms);
  EXPECT_EQ(await(stubborn->read_to_end()), "");
}

TEST_P(BackendContract, DestroyEndsDaemons) {
  const auto parent = start(box(), {kPayload, "daemonise"});
  EXPECT_THAT(await(parent->read_until("\n")), testing::StartsWith("daemon "));
  EXPECT_EQ(await(parent->process().wait()).exit_code, 0);
  await(box().destroy(0ms));
  EXPECT_EQ(await(parent->read_to_end()), "");
}

TEST_P(BackendContract, BoxThatIsDroppedIsDestroyed) {
  const auto sleeper = start(box(), {kPayload, "sleep", "600"});
  const auto waiter = begin(sleeper->process().wait());
  box_.reset();
  EXPECT_EQ(code_of(waiter), ErrorCode::box_lost);
  EXPECT_EQ(await(sleeper->read_to_end()), "");
}

TEST_P(BackendContract, StopDestroysWhatIsLeft) {
  const auto sleeper = start(box(), {kPayload, "sleep", "600"});
  await(backend_->stop());
  EXPECT_FALSE(box().alive());
  EXPECT_EQ(await(sleeper->read_to_end()), "");
}

TEST_P(BackendContract, IsolationReportNamesEveryLayerOnce) {
  std::vector<model::Layer> layers;
  for (const model::LayerReport& layer : box().isolation().layers) {
    layers.push_back(layer.layer);
    EXPECT_EQ(layer.fix.empty(), layer.state == model::LayerState::in_force)
        << model::to_string(layer.layer);
  }
  EXPECT_EQ(layers, model::all_layers());
  EXPECT_FALSE(box().id().empty());
}

}  // namespace caisson::contract
