#include "session/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    await(registry_.create(spec_of("s")));
    processes_.emplace(ProcessGround{.streams = {.executor = io_.get_executor(), .disk = disk_},
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

}  // namespace
}  // namespace caisson::session
