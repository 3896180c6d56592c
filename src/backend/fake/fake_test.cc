#include "backend/fake/fake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <exception>
#include <optional>
#include <utility>

#include "backend/run.h"

namespace caisson::backend::fake {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// What came of an operation, once the loop has run.
template <typename T>
struct Outcome {
  bool done = false;
  std::optional<T> value;
  std::exception_ptr failure;

  ErrorCode code() const {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal_error;
  }
};

class FakeBackend : public testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

  template <typename T>
  void begin(Task<T> task, Outcome<T>& outcome) {
    auto done = [&outcome](std::exception_ptr failure, T value) {
      outcome.done = true;
      outcome.failure = failure;
      if (!failure) outcome.value = std::move(value);
    };
    asio::co_spawn(io_, std::move(task), std::move(done));
    step();
  }

  // Everything that can happen without time passing or somebody outside doing something.
  void step() {
    io_.restart();
    io_.poll();
  }

  std::unique_ptr<Box> create() {
    Outcome<std::unique_ptr<Box>> outcome;
    begin(fake_.create(model::BoxSettings()), outcome);
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    return std::move(*outcome.value);
  }

  RunResult run(Box& box, std::string script) {
    Outcome<RunResult> outcome;
    begin(backend::run(box, shell(std::move(script))), outcome);
    io_.restart();
    while (!outcome.done) io_.run_one();
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    return std::move(*outcome.value);
  }

  static RunRequest shell(std::string script) {
    RunRequest request;
    request.process.argv = {"sh", "-lc", std::move(script)};
    request.process.env = default_environment();
    return request;
  }

  asio::io_context io_;
  Fake fake_{io_.get_executor()};
};

TEST_F(FakeBackend, FailsTheNextCreateAndOnlyThat) {
  fake_.fail_next_create(Error(ErrorCode::isolation_unavailable, "no pids"));
  Outcome<std::unique_ptr<Box>> outcome;
  begin(fake_.create(model::BoxSettings()), outcome);
  EXPECT_EQ(outcome.code(), ErrorCode::isolation_unavailable);
  EXPECT_THAT(fake_.boxes(), ElementsAre());
  EXPECT_TRUE(create()->alive());
}

TEST_F(FakeBackend, HoldsCreatesUntilTheyAreReleased) {
  fake_.hold_creates();
  Outcome<std::unique_ptr<Box>> first;
  Outcome<std::unique_ptr<Box>> second;
  begin(fake_.create(model::BoxSettings()), first);
  begin(fake_.create(model::BoxSettings()), second);
  EXPECT_FALSE(first.done);
  EXPECT_EQ(fake_.held_creates(), 2u);
  fake_.release_creates();
  step();
  EXPECT_TRUE(first.done && second.done);
  EXPECT_EQ(fake_.held_creates(), 0u);
  EXPECT_THAT(fake_.boxes(), ElementsAre("fake-1", "fake-2"));
}

TEST_F(FakeBackend, FailsTheNextStart) {
  const auto box = create();
  fake_.fail_next_start(Error(ErrorCode::command_not_started, "out of luck"));
  Outcome<RunResult> outcome;
  begin(backend::run(*box, shell("true")), outcome);
  EXPECT_EQ(outcome.code(), ErrorCode::command_not_started);
  EXPECT_EQ(run(*box, "exit 3").exit.exit_code, 3);
}

TEST_F(FakeBackend, LosesABoxThatIsKilled) {
  const auto box = create();
  const auto other = create();
  Outcome<RunResult> outcome;
  begin(backend::run(*box, shell("sleep 600")), outcome);
  EXPECT_FALSE(outcome.done);
  EXPECT_TRUE(fake_.kill_box(box->id()));
  step();
  EXPECT_EQ(outcome.code(), ErrorCode::box_lost);
  EXPECT_FALSE(box->alive());
  EXPECT_TRUE(other->alive());
  EXPECT_FALSE(fake_.kill_box(box->id()));
  EXPECT_THAT(fake_.boxes(), ElementsAre(other->id()));
}

TEST_F(FakeBackend, CanBeUnavailable) {
  fake_.set_unavailable("no kernel here");
  Outcome<BackendStatus> status;
  begin(fake_.status(), status);
  EXPECT_FALSE(status.value->available);
  EXPECT_EQ(status.value->reason, "no kernel here");
  Outcome<std::unique_ptr<Box>> outcome;
  begin(fake_.create(model::BoxSettings()), outcome);
  EXPECT_EQ(outcome.code(), ErrorCode::backend_unavailable);
  fake_.set_unavailable("");
  EXPECT_TRUE(create()->alive());
}

TEST_F(FakeBackend, ShowsTheIsolationItIsGiven) {
  model::IsolationReport report;
  report.layers.push_back(
      {model::Layer::seccomp, model::LayerState::missing, "not here", "build with it"});
  fake_.set_isolation(report);
  EXPECT_EQ(create()->isolation(), report);
}

TEST_F(FakeBackend, CreatesNothingOnceItIsStopped) {
  const auto box = create();
  asio::co_spawn(io_, fake_.stop(), [](std::exception_ptr) {});
  step();
  EXPECT_FALSE(box->alive());
  Outcome<std::unique_ptr<Box>> outcome;
  begin(fake_.create(model::BoxSettings()), outcome);
  EXPECT_EQ(outcome.code(), ErrorCode::backend_unavailable);
}

TEST_F(FakeBackend, BoxOutlivesIt) {
  auto backend = std::make_unique<Fake>(io_.get_executor());
  Outcome<std::unique_ptr<Box>> outcome;
  begin(backend->create(model::BoxSettings()), outcome);
  backend.reset();
  EXPECT_EQ(run(**outcome.value, "echo here").out.data, "here\n");
}

TEST_F(FakeBackend, LeavesNothingInTheLoopOfABoxThatIsDropped) {
  auto box = create();
  Outcome<RunResult> outcome;
  begin(backend::run(*box, shell("sleep 600")), outcome);
  EXPECT_FALSE(outcome.done);
  box.reset();
  io_.restart();
  io_.run();  // returns, because there is nothing left to wait for
  EXPECT_EQ(outcome.code(), ErrorCode::box_lost);
}

TEST_F(FakeBackend, ShellRunsWhatLangBotSends) {
  const auto box = create();
  const RunResult result =
      run(*box, "mkdir -p /workspace/a && cd /workspace/a && echo \"in $HOME\" && pwd");
  EXPECT_EQ(result.out.data, "in /home/box\n/workspace/a\n");
  EXPECT_EQ(result.err.data, "");
}

TEST_F(FakeBackend, ShellAnswersAsShellsDo) {
  const auto box = create();
  EXPECT_EQ(run(*box, "false || exit 4").exit.exit_code, 4);
  EXPECT_EQ(run(*box, "false && exit 4").exit.exit_code, 1);
  EXPECT_EQ(run(*box, "A='x y'; export B=$A; echo \"$B\" > /tmp/f; cat < /tmp/f").out.data,
            "x y\n");
  EXPECT_EQ(run(*box, "caisson-payload kill 9; echo $?").out.data, "137\n");
  EXPECT_EQ(run(*box, "kill -TERM $$").exit.signal, SIGTERM);
  const RunResult missing = run(*box, "no-such-command");
  EXPECT_EQ(missing.exit.exit_code, 127);
  EXPECT_THAT(missing.err.data, HasSubstr("no-such-command"));
  const RunResult unknown = run(*box, "echo x | cat");
  EXPECT_EQ(unknown.exit.exit_code, 2);
  EXPECT_THAT(unknown.err.data, HasSubstr("'|'"));
}

TEST_F(FakeBackend, CommandMayBeRunByExecOfItsShell) {
  const auto box = create();
  EXPECT_EQ(run(*box, "exec caisson-payload exit 9; echo not reached").exit.exit_code, 9);
}

TEST_F(FakeBackend, WriterWithoutAReaderDiesOfSigpipe) {
  const auto box = create();
  EXPECT_EQ(run(*box, "caisson-payload daemonise; exit 0").exit.exit_code, 0);
  EXPECT_EQ(run(*box, "caisson-payload flood 0 & exit 0").exit.exit_code, 0);
  step();  // the pipe of the command is closed now
  Outcome<BoxUsage> usage;
  begin(box->usage(), usage);
  EXPECT_EQ(usage.value->processes, 1u);  // the daemon; it is not writing
}

}  // namespace
}  // namespace caisson::backend::fake
