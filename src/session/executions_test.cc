#include "session/executions.h"

#include <gmock/gmock.h>

#include "base/str.h"
#include "base/temporary_directory.h"
#include "session/scene_for_test.h"

namespace caisson::session {
namespace {

using store::ExecutionState;
using testing::HasSubstr;

// What a caller with a request id got.
struct Got {
  std::string text;
  std::optional<ErrorCode> error;
  bool repeated = false;
  bool operator==(const Got&) const = default;
};

ExecRequest keyed(std::string key, std::string cmd, std::string session = "s") {
  ExecRequest request = command(std::move(session), std::move(cmd));
  request.options.request_id = std::move(key);
  request.cancellation = std::make_shared<Cancellation>();
  return request;
}

class ExecutionsTest : public SessionScene {
 protected:
  // A daemon on the state directory; another one, if there was one before.
  void start(ExecutionSettings settings = {}) {
    store_ = std::make_unique<store::AsyncStore>();
    await_opened();
    registry_ = std::make_unique<Registry>(io_.get_executor(), backend_, store_.get(), plain());
    await(registry_->start());
    ExecutionClocks clocks{.steady = [this] { return steady_ + steady_offset_; },
                           .wall = [this] { return wall_; }};
    executions_ = std::make_unique<Executions>(io_.get_executor(), *registry_, *store_, settings,
                                               std::move(clocks));
    await(executions_->start());
  }

  void stop() {
    await(registry_->stop());
    await(executions_->stop());
    executions_.reset();
    registry_.reset();
    store_.reset();
  }

  void TearDown() override {
    if (executions_) stop();
    await(backend_.stop());
  }

  static Task<Got> ask(Executions& executions, ExecRequest request) {
    const Executions::Share share = co_await executions.begin(std::move(request));
    const Answer answer = co_await share.answer();
    Got got{.text = answer.text, .repeated = share.repeated()};
    if (answer.error) got.error = answer.error->code();
    co_return got;
  }

  std::shared_ptr<Outcome<Got>> begin_ask(ExecRequest request) {
    return begin(ask(*executions_, std::move(request)));
  }
  Got got(ExecRequest request) { return await(ask(*executions_, std::move(request))); }
  Outcome<Got> failure(ExecRequest request) { return end(begin_ask(std::move(request))); }

  Executions::View view(std::string key) { return await(executions_->get("s", std::move(key))); }
  ErrorCode code_of_view(std::string key) {
    return end(begin(executions_->get("s", std::move(key))))
        .code.value_or(ErrorCode::internal_error);
  }

  std::string log() { return await(registry_->exec(command("s", "cat /workspace/log"))).out; }
  std::vector<store::ExecutionRecord> records() { return await(store_->executions()); }

  TemporaryDirectory directory_;
  std::unique_ptr<store::AsyncStore> store_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Executions> executions_;
  Deadline steady_ = Clock::now();
  std::chrono::seconds steady_offset_{0};
  model::Timestamp wall_{std::chrono::seconds(1'700'000'000)};

 private:
  void await_opened() { await(store_->open(directory_ / "caisson.db")); }
};

constexpr const char* kCount = "echo ran >> /workspace/log; echo out; echo err >&2; exit 3";

TEST_F(ExecutionsTest, RunACommandOnceHoweverOftenItIsAskedFor) {
  start();
  const Got first = got(keyed("k", kCount));
  EXPECT_FALSE(first.repeated);
  EXPECT_THAT(first.text, HasSubstr(R"("exit_code":3,"stdout":"out","stderr":"err")"));
  for (int i = 0; i < 3; ++i) {
    const Got again = got(keyed("k", kCount));
    EXPECT_TRUE(again.repeated);
    EXPECT_EQ(again.text, first.text);
  }
  EXPECT_EQ(log(), "ran");
}

TEST_F(ExecutionsTest, AnswerAllWhoAskWhileTheCommandRuns) {
  start();
  backend_.hold_creates();
  std::vector<std::shared_ptr<Outcome<Got>>> all;
  for (int i = 0; i < 20; ++i) all.push_back(begin_ask(keyed("k", kCount)));
  drive([&] { return backend_.held_creates() == 1; });
  EXPECT_EQ(view("k").state, ExecutionState::running);
  backend_.release_creates();
  int begun = 0;
  const std::string text = end(all.front()).value->text;
  for (const auto& outcome : all) {
    EXPECT_EQ(end(outcome).value->text, text);
    if (!end(outcome).value->repeated) ++begun;
  }
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(log(), "ran");
}

TEST_F(ExecutionsTest, KeepSessionsAndIdsApart) {
  start();
  got(keyed("k", kCount));
  EXPECT_FALSE(got(keyed("l", kCount)).repeated);
  EXPECT_FALSE(got(keyed("k", kCount, "other")).repeated);
  EXPECT_EQ(log(), "ran\nran");
}

TEST_F(ExecutionsTest, RefuseAnIdThatBelongsToAnotherRequest) {
  start();
  got(keyed("k", kCount));
  std::vector<ExecRequest> others(5, keyed("k", kCount));
  others[0].asked.command.cmd = "echo other";
  others[1].options.input = "text";
  others[2].asked.command.env = {{"A", "1"}};
  others[3].options.on_timeout = model::OnTimeout::end_command;
  others[4].options.on_disconnect = model::OnDisconnect::cancel;
  for (const ExecRequest& other : others) {
    const auto outcome = failure(other);
    EXPECT_EQ(outcome.code, ErrorCode::request_id_conflict);
    EXPECT_THAT(outcome.message, HasSubstr("request id k of session s was used for another"));
  }
  ExecRequest same = keyed("k", kCount);
  same.options.on_disconnect = model::OnDisconnect::keep;  // as it is without being said
  EXPECT_TRUE(got(same).repeated);
}

TEST_F(ExecutionsTest, KnowTheAnswerAfterARestart) {
  start();
  const Got first = got(keyed("k", kCount));
  stop();
  start();
  EXPECT_EQ(got(keyed("k", kCount)), (Got{.text = first.text, .repeated = true}));
  EXPECT_EQ(view("k").answer.text, first.text);
  EXPECT_EQ(registry_->status().execs, 0u);
}

TEST_F(ExecutionsTest, DoNotRunAgainWhatTheDaemonBeforeHadBegun) {
  start();
  const auto running = begin_ask(keyed("k", "sleep 60"));
  drive([&] { return registry_->find("s") && registry_->get("s").in_use; });
  stop();
  EXPECT_EQ(end(running).code, ErrorCode::session_not_found);
  start();
  const auto outcome = failure(keyed("k", "sleep 60"));
  EXPECT_EQ(outcome.code, ErrorCode::interrupted);
  EXPECT_THAT(outcome.message, HasSubstr("outcome is unknown, and it was not run again"));
  EXPECT_EQ(view("k").state, ExecutionState::interrupted);
  EXPECT_EQ(failure(keyed("k", "sleep 61")).code, ErrorCode::request_id_conflict);
  EXPECT_FALSE(registry_->find("s"));
}

TEST_F(ExecutionsTest, AreForgottenWhenTheirTimeIsOver) {
  start({.ttl = std::chrono::seconds(600)});
  got(keyed("k", kCount));
  wall_ += std::chrono::hours(24);  // a clock that jumps changes nothing
  steady_offset_ = std::chrono::seconds(590);
  EXPECT_TRUE(got(keyed("k", kCount)).repeated);
  steady_offset_ = std::chrono::seconds(601);
  EXPECT_EQ(code_of_view("k"), ErrorCode::not_found);
  EXPECT_EQ(executions_->bytes(), 0u);
  EXPECT_FALSE(got(keyed("k", kCount)).repeated);
  EXPECT_EQ(records().size(), 1u);
  EXPECT_EQ(log(), "ran\nran");
}

TEST_F(ExecutionsTest, SurviveAClockThatJumpsADayWhileNoDaemonRuns) {
  for (const int hours : {24, -24}) {
    const std::string key = "k" + std::to_string(hours);
    start({.ttl = std::chrono::seconds(600)});
    got(keyed(key, kCount));
    stop();
    wall_ += std::chrono::hours(hours);
    start({.ttl = std::chrono::seconds(600)});
    EXPECT_TRUE(got(keyed(key, kCount)).repeated) << hours;
    stop();
  }
  start({.ttl = std::chrono::seconds(600)});
  EXPECT_EQ(executions_->size(), 2u);
  steady_offset_ += std::chrono::seconds(601);
  EXPECT_EQ(end(begin(executions_->get("s", "k24"))).code, ErrorCode::session_not_found);
  EXPECT_EQ(executions_->size(), 0u);
}

TEST_F(ExecutionsTest, GiveWayInTheOrderOfTheirEndsWhateverTheClockSaid) {
  start({.max_count = 3});
  for (const char* key : {"a", "b", "c"}) {
    got(keyed(key, "true"));
    wall_ -= std::chrono::hours(24);
  }
  stop();
  start({.max_count = 3});
  got(keyed("d", "true"));
  EXPECT_EQ(code_of_view("a"), ErrorCode::not_found);
  for (const char* key : {"b", "c", "d"}) EXPECT_EQ(view(key).state, ExecutionState::completed);
}

TEST_F(ExecutionsTest, AreKeptNoLongerForAClockThatWentBack) {
  start({.ttl = std::chrono::seconds(600)});
  got(keyed("k", kCount));
  stop();
  wall_ -= std::chrono::hours(48);
  start({.ttl = std::chrono::seconds(600)});
  EXPECT_TRUE(got(keyed("k", kCount)).repeated);
  steady_offset_ += std::chrono::seconds(601);
  EXPECT_EQ(end(begin(executions_->get("s", "k"))).code, ErrorCode::session_not_found);
}

TEST_F(ExecutionsTest, GoFromTheStoreWhenTheyExpire) {
  start({.ttl = std::chrono::seconds(1)});
  got(keyed("k", kCount));
  steady_offset_ = std::chrono::seconds(2);
  drive([&] { return executions_->size() == 0; });
  EXPECT_TRUE(records().empty());
}

TEST_F(ExecutionsTest, GiveWayToNewerOnesWhenThereAreTooMany) {
  start({.max_count = 3});
  for (const char* key : {"a", "b", "c", "d"}) got(keyed(key, "true"));
  EXPECT_EQ(code_of_view("a"), ErrorCode::not_found);
  for (const char* key : {"b", "c", "d"}) EXPECT_EQ(view(key).state, ExecutionState::completed);
  EXPECT_EQ(records().size(), 3u);
}

TEST_F(ExecutionsTest, DoNotGiveWayWhileTheyRun) {
  start({.max_count = 2});
  const auto first = begin_ask(keyed("a", "sleep 60", "x"));
  const auto second = begin_ask(keyed("b", "sleep 60", "y"));
  drive([&] { return registry_->find("x") && registry_->find("y"); });
  const auto third = failure(keyed("c", kCount));
  EXPECT_EQ(third.code, ErrorCode::capacity_reached);
  EXPECT_THAT(third.message, HasSubstr("caisson.max_request_ids"));
  await(registry_->remove("x"));
  EXPECT_EQ(end(first).value->error, ErrorCode::session_not_found);
  EXPECT_FALSE(got(keyed("c", kCount)).repeated);
  await(registry_->remove("y"));
  end(second);
}

TEST_F(ExecutionsTest, KeepNoMoreThanTheirBytes) {
  start({.max_bytes = 700});
  const Got first = got(keyed("a", "echo 1"));
  ASSERT_LT(first.text.size(), 350u);
  got(keyed("b", "echo 2"));
  EXPECT_EQ(executions_->size(), 2u);
  got(keyed("c", "echo 3"));
  EXPECT_LE(executions_->bytes(), 700u);
  EXPECT_EQ(code_of_view("a"), ErrorCode::not_found);
  EXPECT_EQ(view("c").state, ExecutionState::completed);
}

TEST_F(ExecutionsTest, TellOfAnAnswerThatWasTooLargeToBeKept) {
  start({.max_bytes = 280});
  const Got first = got(keyed("k", str("echo ", std::string(300, 'x'))));
  EXPECT_GT(first.text.size(), 280u);
  const Got again = got(keyed("k", str("echo ", std::string(300, 'x'))));
  EXPECT_EQ(again.error, ErrorCode::payload_too_large);
  EXPECT_EQ(registry_->status().execs, 1u);
}

TEST_F(ExecutionsTest, GoWithTheirSession) {
  start();
  got(keyed("k", kCount));
  got(keyed("k", kCount, "other"));
  await(registry_->remove("s"));
  EXPECT_EQ(records().size(), 1u);
  EXPECT_EQ(end(begin(executions_->get("s", "k"))).code, ErrorCode::session_not_found);
  EXPECT_FALSE(got(keyed("k", kCount)).repeated);
  EXPECT_TRUE(got(keyed("k", kCount, "other")).repeated);
}

TEST_F(ExecutionsTest, LeaveNoRecordOfACommandWhoseSessionIsDeletedMeanwhile) {
  start();
  const auto running = begin_ask(keyed("k", "sleep 60"));
  drive([&] { return registry_->find("s") && registry_->get("s").in_use; });
  await(registry_->remove("s"));
  EXPECT_EQ(end(running).value->error, ErrorCode::session_not_found);
  EXPECT_TRUE(records().empty());
  EXPECT_EQ(executions_->size(), 0u);
}

TEST_F(ExecutionsTest, OutliveASessionThatATimeoutEnds) {
  start();
  ExecRequest request = keyed("k", "echo begun; sleep 60");
  request.asked.command.timeout_sec = 1;
  const Got first = got(request);
  EXPECT_THAT(first.text, HasSubstr(R"("status":"timed_out")"));
  EXPECT_FALSE(registry_->find("s"));
  EXPECT_EQ(got(request).text, first.text);
  EXPECT_EQ(registry_->status().timeouts, 1u);
}

TEST_F(ExecutionsTest, MayBeTriedAgainWhenTheCommandCouldNotBegin) {
  start();
  backend_.fail_next_create(Error(ErrorCode::backend_unavailable, "no boxes now"));
  EXPECT_EQ(failure(keyed("k", kCount)).code, ErrorCode::backend_unavailable);
  EXPECT_TRUE(records().empty());
  EXPECT_FALSE(got(keyed("k", kCount)).repeated);
  EXPECT_EQ(log(), "ran");
}

TEST_F(ExecutionsTest, RememberThatTheBoxWasLost) {
  start();
  const auto running = begin_ask(keyed("k", "sleep 60"));
  drive([&] {
    return !backend_.boxes().empty() && registry_->find("s") && registry_->get("s").in_use;
  });
  ASSERT_TRUE(backend_.kill_box(backend_.boxes().front()));
  EXPECT_EQ(end(running).value->error, ErrorCode::box_lost);
  EXPECT_EQ(got(keyed("k", "sleep 60")), (Got{.error = ErrorCode::box_lost, .repeated = true}));
  EXPECT_EQ(view("k").answer.error->code(), ErrorCode::box_lost);
}

TEST_F(ExecutionsTest, GoOnWithoutThoseWhoAskedForThem) {
  start();
  auto leave = [](Executions& executions, ExecRequest request) -> Task<void> {
    Executions::Share share = co_await executions.begin(std::move(request));
    share.leave();
  };
  await(leave(*executions_, keyed("k", kCount)));
  EXPECT_TRUE(got(keyed("k", kCount)).repeated);
  EXPECT_EQ(log(), "ran");
}

TEST_F(ExecutionsTest, EndWithTheLastCallerWhenThatWasAskedFor) {
  start();
  const auto request = [] {
    ExecRequest once = keyed("k", "sleep 60");
    once.options.on_disconnect = model::OnDisconnect::cancel;
    return once;
  };
  std::optional<Executions::Share> first;
  std::optional<Executions::Share> second;
  auto enter = [](Executions& executions, ExecRequest once,
                  std::optional<Executions::Share>& share) -> Task<void> {
    share.emplace(co_await executions.begin(std::move(once)));
  };
  await(enter(*executions_, request(), first));
  await(enter(*executions_, request(), second));
  drive([&] { return registry_->find("s") && registry_->get("s").in_use; });
  first->leave();
  EXPECT_EQ(view("k").state, ExecutionState::running);
  const auto answer = begin(second->answer());
  second->leave();
  EXPECT_EQ(end(answer).value->error->code(), ErrorCode::cancelled);
  EXPECT_EQ(got(request()).error, ErrorCode::cancelled);
}

TEST_F(ExecutionsTest, AreNamedWhenTheyAreUnknown) {
  start();
  EXPECT_EQ(code_of_view("k"), ErrorCode::session_not_found);
  await(registry_->create(request_of("s")));
  EXPECT_EQ(code_of_view("k"), ErrorCode::not_found);
}

}  // namespace
}  // namespace caisson::session
