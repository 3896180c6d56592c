#include "session/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str.h"
#include "session/scene_for_test.h"

namespace caisson::session {
namespace {

using model::BoxRequest;
using model::BoxSettings;
using model::ExecResult;
using testing::HasSubstr;

class RegistryTest : public SessionScene {
 protected:
  void TearDown() override {
    if (!registry_) return;
    await(registry_->stop());
    EXPECT_THAT(backend_.boxes(), testing::IsEmpty());
    await(backend_.stop());
  }

  Registry& start(Settings settings = {}) {
    registry_ = std::make_unique<Registry>(io_.get_executor(), backend_, nullptr, settings);
    await(registry_->start());
    return *registry_;
  }

  ExecResult exec(std::string id, std::string cmd) {
    return await(registry_->exec(command(std::move(id), std::move(cmd))));
  }

  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryTest, RunsACommandInASessionThatItMakes) {
  start(plain());
  const ExecResult result = exec("a", "echo hello; echo oops >&2; exit 7");
  EXPECT_EQ(result.session_id, "a");
  EXPECT_EQ(result.backend_name, "fake");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "hello");
  EXPECT_EQ(result.err, "oops");
  EXPECT_TRUE(registry_->find("a"));
  EXPECT_FALSE(registry_->find("b"));
}

TEST_F(RegistryTest, KeepsTheBoxFromOneCommandToTheNext) {
  start(plain());
  exec("a", "echo kept > /workspace/file");
  EXPECT_EQ(exec("a", "cat /workspace/file").out, "kept");
  EXPECT_EQ(exec("b", "cat /workspace/file").exit_code, 1);
  EXPECT_EQ(backend_.boxes().size(), 2u);
}

TEST_F(RegistryTest, RunsTheCommandsOfASessionInTheirOrder) {
  start(plain());
  std::vector<std::shared_ptr<Outcome<ExecResult>>> all;
  all.reserve(20);
  for (int i = 0; i < 20; ++i) {
    all.push_back(begin(registry_->exec(command("a", "echo " + std::to_string(i) + " >> log"))));
  }
  for (const auto& outcome : all) EXPECT_EQ(end(outcome).value->exit_code, 0);
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(exec("a", "cat log").out + "\n", expected);
}

TEST_F(RegistryTest, LetsOtherSessionsGoOnWhileOneIsBusyOrBeingMade) {
  start(plain());
  exec("quick", "true");
  const auto busy = begin(registry_->exec(command("busy", "sleep 60")));
  backend_.hold_creates();
  const auto slow = begin(registry_->exec(command("slow", "true")));
  drive([&] { return backend_.held_creates() == 1; });
  EXPECT_EQ(exec("quick", "echo still here").out, "still here");
  EXPECT_FALSE(busy->done);
  EXPECT_FALSE(slow->done);
  backend_.release_creates();
  EXPECT_EQ(end(slow).value->exit_code, 0);
  await(registry_->remove("busy"));
  EXPECT_EQ(end(busy).code, ErrorCode::session_not_found);
}

TEST_F(RegistryTest, NamesTheFirstSettingThatDiffers) {
  start(plain());
  await(registry_->create(request_of("a")));
  const std::pair<std::function<void(BoxSettings&)>, std::string> rows[] = {
      {[](BoxSettings& s) { s.network = model::NetworkMode::on; }, "network=off"},
      {[](BoxSettings& s) { s.image = "other"; }, str("image=", model::kDefaultImage)},
      {[](BoxSettings& s) { s.host_path = "/tmp"; }, "host_path=null"},
      {[](BoxSettings& s) { s.host_path_mode = model::MountMode::ro; }, "host_path_mode=rw"},
      {[](BoxSettings& s) { s.mount_path = "/code"; }, "mount_path=/workspace"},
      {[](BoxSettings& s) { s.persistent = true; }, "persistent=false"},
      {[](BoxSettings& s) { s.cpus = 0.5; }, "cpus=1"},
      {[](BoxSettings& s) { s.memory_mb = 64; }, "memory_mb=512"},
      {[](BoxSettings& s) { s.pids_limit = 9; }, "pids_limit=128"},
      {[](BoxSettings& s) { s.read_only_rootfs = false; }, "read_only_rootfs=true"},
      {[](BoxSettings& s) { s.workspace_quota_mb = 5; }, "workspace_quota_mb=0"},
  };
  // Each row with all rows after it: the first one is named.
  for (std::size_t first = 0; first < std::size(rows); ++first) {
    BoxRequest request = request_of("a");
    for (std::size_t i = first; i < std::size(rows); ++i) rows[i].first(request.box);
    const auto outcome = end(begin(registry_->create(request)));
    EXPECT_EQ(outcome.code, ErrorCode::session_conflict);
    EXPECT_EQ(
        outcome.message,
        str("session a already exists with ", rows[first].second,
            ": ask for the same, remove the session with `caisson rm a`, or choose another name"));
  }
  EXPECT_EQ(backend_.boxes().size(), 1u);
}

TEST_F(RegistryTest, TakesOneImageForTheSameInEverySpelling) {
  Settings settings = plain();
  settings.pooled_kinds = 1;
  start(settings);
  const std::string spellings[] = {"docker.io/rockchin/langbot-sandbox:v1", "host",
                                   std::string(model::kDefaultImage)};
  for (const std::string& spelling : spellings) {
    BoxRequest request = request_of("a");
    request.box.image = spelling;
    // A host compares what it is told with what it asked for.
    EXPECT_EQ(await(registry_->create(request)).info.box.image, spelling);
  }
  EXPECT_EQ(registry_->status().sessions, 1u);
  EXPECT_EQ(registry_->get("a").info.box.image, spellings[0]);
  drive([&] { return registry_->status().pooled_boxes == 1; });
  const std::uint64_t hits = registry_->status().pool_hits;
  BoxRequest other = request_of("b");
  other.box.image = "rockchin/langbot-sandbox@sha256:00";
  EXPECT_EQ(await(registry_->create(other)).info.box.image, other.box.image);
  EXPECT_EQ(registry_->status().pool_hits, hits + 1);
}

TEST_F(RegistryTest, DoesNotMindWhatBelongsToASingleCall) {
  start(plain());
  exec("a", "echo 1 > /workspace/kept");
  ExecRequest request = command("a", "cat /workspace/kept; echo $NAME; pwd");
  request.asked.command.env = {{"NAME", "value"}};
  request.asked.command.workdir = "/workspace/below";
  request.asked.command.timeout_sec = 7;
  EXPECT_EQ(await(registry_->exec(std::move(request))).out, "1\nvalue\n/workspace/below");
}

TEST_F(RegistryTest, MakesANewBoxWhenTheOldOneHasEnded) {
  start(plain());
  exec("a", "true");
  const std::string box = registry_->get("a").info.backend_session_id;
  ASSERT_TRUE(backend_.kill_box(box));
  EXPECT_FALSE(registry_->get("a").alive);
  EXPECT_EQ(exec("a", "echo again").out, "again");
  EXPECT_NE(registry_->get("a").info.backend_session_id, box);
}

TEST_F(RegistryTest, TellsACommandThatItsBoxEnded) {
  start(plain());
  const auto running = begin(registry_->exec(command("a", "sleep 60")));
  drive([&] { return !backend_.boxes().empty() && registry_->get("a").in_use; });
  ASSERT_TRUE(backend_.kill_box(backend_.boxes().front()));
  const auto outcome = end(running);
  EXPECT_EQ(outcome.code, ErrorCode::box_lost);
  EXPECT_THAT(outcome.message, HasSubstr("session a"));
  EXPECT_EQ(exec("a", "echo next").out, "next");
}

TEST_F(RegistryTest, EndsTheSessionOfACommandThatTimesOut) {
  start(plain());
  ExecRequest request = command("a", "echo begun; sleep 60");
  request.asked.command.timeout_sec = 1;
  const ExecResult result = await(registry_->exec(std::move(request)));
  EXPECT_EQ(result.status, model::ExecStatus::timed_out);
  EXPECT_EQ(result.exit_code, std::nullopt);
  EXPECT_EQ(result.out, "begun");
  EXPECT_EQ(result.err, "Command timed out after 1 seconds.");
  EXPECT_FALSE(registry_->find("a"));
  EXPECT_THAT(backend_.boxes(), testing::IsEmpty());
}

TEST_F(RegistryTest, EndsOnlyTheCommandWhenTheCallerAskedForThat) {
  start(plain());
  exec("a", "echo 1 > kept");
  ExecRequest request = command("a", "sleep 60");
  request.asked.command.timeout_sec = 1;
  request.options.on_timeout = model::OnTimeout::end_command;
  EXPECT_EQ(await(registry_->exec(std::move(request))).status, model::ExecStatus::timed_out);
  EXPECT_EQ(exec("a", "cat kept").out, "1");
}

TEST_F(RegistryTest, DeletingWaitsForACreationThatIsUnderWay) {
  start(plain());
  backend_.hold_creates();
  const auto creating = begin(registry_->create(request_of("a")));
  drive([&] { return backend_.held_creates() == 1; });
  const auto removing = begin(registry_->remove("a"));
  backend_.release_creates();
  EXPECT_FALSE(end(creating).code);
  EXPECT_FALSE(end(removing).code);
  EXPECT_FALSE(registry_->find("a"));
  EXPECT_THAT(backend_.boxes(), testing::IsEmpty());
}

TEST_F(RegistryTest, OfTwoDeletionsOneFindsNothing) {
  start(plain());
  await(registry_->create(request_of("a")));
  const auto first = begin(registry_->remove("a"));
  const auto second = begin(registry_->remove("a"));
  EXPECT_FALSE(end(first).code);
  EXPECT_EQ(end(second).code, ErrorCode::session_not_found);
  EXPECT_EQ(end(second).message, "session a not found");
}

TEST_F(RegistryTest, CountsWhatIsBeingMadeAgainstItsCapacity) {
  Settings settings = plain();
  settings.max_sessions = 2;
  start(settings);
  backend_.hold_creates();
  const auto a = begin(registry_->create(request_of("a")));
  const auto b = begin(registry_->create(request_of("b")));
  drive([&] { return backend_.held_creates() == 2; });
  const auto c = end(begin(registry_->create(request_of("c"))));
  EXPECT_EQ(c.code, ErrorCode::capacity_reached);
  EXPECT_EQ(c.message, "Box session capacity reached (2)");
  backend_.release_creates();
  EXPECT_FALSE(end(a).code);
  EXPECT_FALSE(end(b).code);
  await(registry_->remove("a"));
  await(registry_->create(request_of("c")));
}

TEST_F(RegistryTest, LeavesNothingOfACreationThatFails) {
  start(plain());
  backend_.fail_next_create(Error(ErrorCode::mount_refused, "no"));
  const auto outcome = end(begin(registry_->exec(command("a", "true"))));
  EXPECT_EQ(outcome.code, ErrorCode::mount_refused);
  EXPECT_FALSE(registry_->find("a"));
  EXPECT_EQ(registry_->status().being_made, 0u);
  EXPECT_EQ(exec("a", "echo now").out, "now");
}

TEST_F(RegistryTest, CancelsACommandThatRunsOrWaits) {
  start(plain());
  exec("a", "true");
  ExecRequest running = command("a", "sleep 60");
  ExecRequest waiting = command("a", "echo never > /workspace/never");
  running.cancellation = std::make_shared<Cancellation>();
  waiting.cancellation = std::make_shared<Cancellation>();
  const auto stop_running = running.cancellation;
  const auto stop_waiting = waiting.cancellation;
  const auto first = begin(registry_->exec(std::move(running)));
  const auto second = begin(registry_->exec(std::move(waiting)));
  drive([&] { return registry_->get("a").in_use; });
  stop_waiting->cancel();
  EXPECT_EQ(end(second).code, ErrorCode::cancelled);
  EXPECT_FALSE(first->done);
  stop_running->cancel();
  EXPECT_EQ(end(first).code, ErrorCode::cancelled);
  EXPECT_EQ(exec("a", "cat /workspace/never").exit_code, 1);
}

TEST_F(RegistryTest, ExpiresSessionsThatNobodyUses) {
  Settings settings = plain();
  settings.ttl = std::chrono::seconds(1);
  start(settings);
  exec("idle", "true");
  BoxRequest persistent = request_of("kept");
  persistent.box.persistent = true;
  await(registry_->create(persistent));
  const auto busy = begin(registry_->exec(command("busy", "sleep 600")));
  drive([&] { return registry_->find("busy") && registry_->get("busy").in_use; });
  drive([&] { return !registry_->find("idle"); });
  EXPECT_TRUE(registry_->find("kept"));
  EXPECT_TRUE(registry_->find("busy"));
  EXPECT_EQ(registry_->status().expired, 1u);
  await(registry_->remove("busy"));
  EXPECT_EQ(end(busy).code, ErrorCode::session_not_found);
}

TEST_F(RegistryTest, GivesTheSameAnswersWithAndWithoutWhatIsMadeAhead) {
  const std::vector<std::string> commands = {"echo 1; pwd",        "exit 3",  "cd /tmp; pwd",
                                             "echo $HOME",         "# none",  "cat /absent",
                                             "X=1; echo $X; exit", "echo $X", "kill -9 $$"};
  std::vector<ExecResult> results[2];
  for (const bool ahead : {false, true}) {
    Settings settings;
    settings.pooled_kinds = ahead ? 2 : 0;
    settings.park_shells = ahead;
    start(settings);
    for (const std::string& text : commands) {
      ExecResult result = exec("a", text);
      result.duration_ms = result.cpu_ms = result.peak_memory_bytes = 0;
      results[ahead ? 1 : 0].push_back(std::move(result));
    }
    if (ahead) EXPECT_GT(registry_->status().pool_hits + registry_->status().pool_misses, 0u);
    await(registry_->stop());
    registry_.reset();
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    EXPECT_EQ(results[0][i], results[1][i]) << commands[i];
  }
}

TEST_F(RegistryTest, ParksAShellWhileNobodyRunsACommandAndLetsItGo) {
  Settings settings = plain();
  settings.parked_shell_idle = std::chrono::seconds(1);
  start(settings);
  exec("a", "true");
  drive([&] { return registry_->status().parked_shells == 1; });
  EXPECT_EQ(exec("a", "echo used").out, "used");
  drive([&] { return registry_->status().parked_shells == 1; });
  drive([&] { return registry_->status().parked_shells == 0; });
}

TEST_F(RegistryTest, SurvivesFiftyOperationsOnOneName) {
  start(plain());
  std::vector<std::shared_ptr<Outcome<int>>> all;
  auto one = [this](int i) -> Task<void> {
    ExecRequest request = command("a", "echo x");
    BoxRequest asked = request_of("a");
    if (i % 3 == 0) {
      co_await registry_->exec(std::move(request));
    } else if (i % 3 == 1) {
      co_await registry_->create(std::move(asked));
    } else {
      co_await registry_->remove("a");
    }
  };
  all.reserve(50);
  for (int i = 0; i < 50; ++i) all.push_back(begin(one(i)));
  for (const auto& outcome : all) {
    const auto ended = end(outcome);
    if (ended.code) EXPECT_EQ(ended.code, ErrorCode::session_not_found) << ended.message;
  }
  EXPECT_LE(backend_.boxes().size(), 1u);
}

TEST_F(RegistryTest, RefusesWorkWhenItStopsAndEndsWhatRuns) {
  start(plain());
  const auto running = begin(registry_->exec(command("a", "sleep 60")));
  drive([&] { return registry_->find("a") && registry_->get("a").in_use; });
  const auto stopping = begin(registry_->stop());
  const auto late = end(begin(registry_->exec(command("b", "true"))));
  EXPECT_EQ(late.code, ErrorCode::runtime_unavailable);
  EXPECT_EQ(late.message, "Box runtime is shutting down");
  EXPECT_EQ(end(running).code, ErrorCode::session_not_found);
  EXPECT_FALSE(end(stopping).code);
  registry_.reset();
  EXPECT_THAT(backend_.boxes(), testing::IsEmpty());
}

}  // namespace
}  // namespace caisson::session
