#include "session/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/temporary_directory.h"
#include "session/scene_for_test.h"

namespace caisson::session {
namespace {

using testing::ElementsAre;

class ProcessesTest : public SessionScene {
 protected:
  ~ProcessesTest() override {
    if (!processes_) return;
    await(registry_.stop());
    await(processes_->stop());
  }

  void start(ProcessSettings settings) {
    await(registry_.start({}));
    await(registry_.create(request_of("s")));
    processes_.emplace(ProcessContext{.streams = {.executor = io_.get_executor(), .disk = disk_},
                                      .directory = directory_ / "processes"},
                       registry_, settings);
  }

  // One that has ended, of which so many bytes and a few more are kept.
  void run(const std::string& id, std::size_t bytes) {
    model::ManagedProcessSpec spec;
    spec.process_id = id;
    spec.command = "true";
    spec.args = {std::string(bytes, 'x')};
    const std::shared_ptr<ManagedProcess> process = await(processes_->start("s", std::move(spec)));
    ASSERT_NE(process, nullptr);
    drive([&] { return process->ended().is_set(); });
  }

  std::vector<std::string> kept() const {
    std::vector<std::string> ids;
    for (const auto& process : processes_->list("s")) ids.push_back(process->spec().process_id);
    return ids;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(directory_.path() / "processes"), {}));
  }

  TemporaryDirectory directory_;
  journal::Disk disk_;
  Registry registry_{io_.get_executor(), backend_, nullptr, plain()};
  std::optional<Processes> processes_;
};

TEST_F(ProcessesTest, KeepTheNewestEndsWithinTheirBytes) {
  start({.max_ended_bytes = 25'000});
  for (const char* id : {"e", "d", "c", "b", "a"}) run(id, 10'000);
  drive([&] { return kept().size() == 2; });
  EXPECT_THAT(kept(), ElementsAre("a", "b"));
  drive([&] { return files() == 2; });
}

TEST_F(ProcessesTest, KeepTheLastEndHoweverLargeItIs) {
  start({.max_ended_bytes = 25'000});
  run("small", 10);
  run("large", 50'000);
  drive([&] { return kept().size() == 1; });
  EXPECT_THAT(kept(), ElementsAre("large"));
  run("next", 10);
  drive([&] { return kept().size() == 1; });
  EXPECT_THAT(kept(), ElementsAre("next"));
}

TEST_F(ProcessesTest, KeepNoMoreEndsThanTheirNumber) {
  start({.max_ended = 2});
  for (const char* id : {"c", "b", "a"}) run(id, 10);
  drive([&] { return kept().size() == 2; });
  EXPECT_THAT(kept(), ElementsAre("a", "b"));
}

// `cat`, with so much to say that it is held back when nobody takes it.
model::ManagedProcessSpec talkative() {
  model::ManagedProcessSpec spec;
  spec.command = "cat";
  spec.journal_bytes = 1 << 20;
  spec.overflow = model::OutputPolicy::hold;
  return spec;
}

TEST_F(ProcessesTest, LoseNothingOfOneThatIsHeldBack) {
  start({});
  const std::shared_ptr<ManagedProcess> process = await(processes_->start("s", talkative()));
  ASSERT_NE(process, nullptr);
  const std::string said(3 << 20, 'x');
  ASSERT_TRUE(await(process->streams().write(0, said)));
  drive([&] { return process->out().full(); });
  EXPECT_EQ(process->out().begin(), 0u);
  while (process->out().end() < said.size()) {
    const std::uint64_t before = process->out().end();
    process->streams().out().release_up_to(before);
    drive([&] { return process->out().end() > before; });
  }
  await(processes_->remove("s", "default"));
}

TEST_F(ProcessesTest, EndThoseThatAreHeldBack) {
  start({});
  for (const bool with_session : {false, true}) {
    const std::shared_ptr<ManagedProcess> process = await(processes_->start("s", talkative()));
    ASSERT_NE(process, nullptr);
    ASSERT_TRUE(await(process->streams().write(0, std::string(3 << 20, 'x'))));
    drive([&] { return process->out().full(); });
    if (with_session) {
      await(registry_.remove("s"));
    } else {
      await(processes_->remove("s", "default"));
    }
    EXPECT_TRUE(process->ended().is_set());
    drive([&] { return processes_->size() == 0 && files() == 0; });
  }
}

TEST_F(ProcessesTest, AreNotStartedAgainBeforeThereIsRoomForWhatTheyLeave) {
  start({});
  model::ManagedProcessSpec spec = talkative();
  spec.command = "echo";
  spec.args = {std::string((1 << 20) + 1000, 'x')};  // the end of it is left in the pipe
  spec.restart = model::Restart::always;
  const std::shared_ptr<ManagedProcess> process = await(processes_->start("s", spec));
  ASSERT_NE(process, nullptr);
  drive([&] { return process->info().status == model::ProcessStatus::restarting; });
  const std::uint64_t end = process->out().end();
  EXPECT_EQ(end, spec.args[0].size() + 1);
  // Longer than the pause before the first restart.
  const Deadline later = Clock::now() + std::chrono::milliseconds(500);
  drive([&] { return Clock::now() >= later; });
  EXPECT_EQ(process->restarts(), 0u);
  process->streams().out().release_up_to(end);
  drive([&] { return process->restarts() == 1 && process->out().end() > end; });
  // One that waits like that is stopped as any other.
  process->streams().out().release_up_to(process->out().end());
  drive([&] { return process->info().status == model::ProcessStatus::restarting; });
  await(processes_->remove("s", "default"));
}

TEST_F(ProcessesTest, CountAsUsesOfTheirSessionWhileTheyLive) {
  start({});
  const std::shared_ptr<ManagedProcess> process = await(processes_->start("s", talkative()));
  ASSERT_NE(process, nullptr);
  const auto used = [&] { return registry_.get("s").info.last_used_at; };
  const auto touch_later = [&](model::Timestamp last) {
    while (model::now() <= last) std::this_thread::yield();
    process->touch();
  };
  const model::Timestamp before = used();
  touch_later(before);
  EXPECT_GT(used(), before);
  await(process->stop());
  const model::Timestamp after = used();
  touch_later(after);
  EXPECT_EQ(used(), after);
}

}  // namespace
}  // namespace caisson::session
