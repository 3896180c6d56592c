#include "backend/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <exception>
#include <filesystem>
#include <utility>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/error.h"

namespace caisson::backend {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

using SentSignals = std::vector<std::pair<int, SignalTarget>>;

// A process of the host, started with setsid(1) so that it leads a group of its own.
class HostProcess final : public Process {
 public:
  HostProcess(asio::any_io_executor executor, ChildProcess child, SentSignals& sent)
      : executor_(std::move(executor)), child_(std::move(child)), sent_(sent) {}

  std::uint64_t id() const override { return static_cast<std::uint64_t>(child_.pid()); }
  std::int64_t pid() const override { return child_.pid(); }
  UniqueFd take_terminal() override { return {}; }

  Task<ProcessExit> wait() override {
    asio::posix::stream_descriptor ended(executor_, ::dup(child_.pidfd()));
    co_await ended.async_wait(asio::posix::descriptor_base::wait_read, asio::use_awaitable);
    const int status = child_.wait();
    ProcessExit exit;
    if (WIFEXITED(status)) exit.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) exit.signal = WTERMSIG(status);
    co_return exit;
  }

  void put_to_use() override {}
  void settle() override {}
  bool kill_all() override { return true; }

  void signal(int signal_number, SignalTarget target) override {
    sent_.emplace_back(signal_number, target);
    if (!child_.running()) return;
    if (target == SignalTarget::group) {
      ::kill(-child_.pid(), signal_number);
    } else {
      child_.kill(signal_number);
    }
  }

 private:
  asio::any_io_executor executor_;
  ChildProcess child_;
  SentSignals& sent_;
};

// No box at all: what run() needs of one, without what a box is for.
class HostBox final : public Box {
 public:
  explicit HostBox(asio::any_io_executor executor) : executor_(std::move(executor)) {}

  const std::string& id() const override { return id_; }
  const model::IsolationReport& isolation() const override { return isolation_; }
  bool alive() const override { return true; }
  Task<std::unique_ptr<Process>> start(ProcessSpec spec, Stdio stdio) override {
    if (spec.argv.at(0) == "missing") {
      throw Error(ErrorCode::command_not_started, "missing: no such program");
    }
    Command command;
    command.argv = std::move(spec.argv);
    command.argv.insert(command.argv.begin(), "/usr/bin/setsid");
    command.env = std::move(spec.env);
    command.fds = {{stdio.in.get(), 0}, {stdio.out.get(), 1}, {stdio.err.get(), 2}};
    for (std::size_t i = 0; i < stdio.more.size(); ++i) {
      command.fds.push_back({stdio.more[i].get(), static_cast<int>(3 + i)});
    }
    co_return std::make_unique<HostProcess>(executor_, spawn(command), signals);
  }
  Task<BoxUsage> usage() override { co_return BoxUsage(); }
  Task<void> show(model::BoxSettings, model::MountSpec) override { co_return; }
  Task<void> hide(model::MountSpec) override { co_return; }
  std::optional<Handover> handover() const override { return std::nullopt; }
  std::unique_ptr<Process> find_process(std::uint64_t) override { return nullptr; }
  void end_unclaimed() override {}
  Task<void> destroy(std::chrono::milliseconds) override { co_return; }

  SentSignals signals;

 private:
  asio::any_io_executor executor_;
  std::string id_ = "host";
  model::IsolationReport isolation_;
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries));
}

RunRequest shell(std::string script) {
  RunRequest request;
  request.process.argv = {"/bin/sh", "-c", std::move(script)};
  request.process.env = default_environment();
  return request;
}

class Run : public testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    // The loop's own descriptors are there before the first count.
    asio::steady_timer(io_, Clock::now()).async_wait([](auto) {});
    io_.run();
    before_ = open_descriptors();
  }
  void TearDown() override { EXPECT_EQ(open_descriptors(), before_); }

  RunResult run_to_end(RunRequest request) {
    RunResult result;
    std::exception_ptr failure;
    auto done = [&](std::exception_ptr error, RunResult value) {
      failure = error;
      result = std::move(value);
    };
    asio::co_spawn(io_, run(box_, std::move(request)), std::move(done));
    io_.restart();
    io_.run();
    if (failure) std::rethrow_exception(failure);
    return result;
  }

  asio::io_context io_;
  HostBox box_{io_.get_executor()};
  std::ptrdiff_t before_ = 0;
};

TEST_F(Run, ReturnsBothStreamsAndTheExitCode) {
  const RunResult result = run_to_end(shell("echo to out; echo to err >&2; exit 7"));
  EXPECT_EQ(result.out.data, "to out\n");
  EXPECT_EQ(result.err.data, "to err\n");
  EXPECT_EQ(result.out.discarded, 0u);
  EXPECT_EQ(result.exit.exit_code, 7);
  EXPECT_FALSE(result.timed_out);
  EXPECT_GT(result.duration, 0us);
}

TEST_F(Run, GivesNoInputUnlessAsked) {
  const RunResult result = run_to_end(shell("cat; test -p /dev/stdin || echo no pipe"));
  EXPECT_EQ(result.out.data, "no pipe\n");
}

TEST_F(Run, PassesInputThatDoesNotFitIntoAPipe) {
  RunRequest request = shell("cat");
  request.output_limit = 4u << 20;
  request.input.assign(3u << 20, 'x');
  request.input[1u << 20] = '\0';
  const std::string expected = request.input;
  const RunResult result = run_to_end(std::move(request));
  EXPECT_TRUE(result.out.data == expected);
  EXPECT_EQ(result.exit.exit_code, 0);
}

TEST_F(Run, ToleratesAProcessThatDoesNotReadItsInput) {
  RunRequest request = shell("exec <&-; echo closed; exit 3");
  request.input.assign(1u << 20, 'x');
  const RunResult result = run_to_end(std::move(request));
  EXPECT_EQ(result.out.data, "closed\n");
  EXPECT_EQ(result.exit.exit_code, 3);
}

TEST_F(Run, CountsExactlyWhatExceedsTheLimit) {
  RunRequest request = shell("head -c 5242880 /dev/zero; head -c 100 /dev/zero >&2");
  request.output_limit = 1000;
  const RunResult result = run_to_end(std::move(request));
  EXPECT_EQ(result.out.data, std::string(1000, '\0'));
  EXPECT_EQ(result.out.discarded, 5242880u - 1000u);
  EXPECT_EQ(result.err.data.size(), 100u);
  EXPECT_EQ(result.err.discarded, 0u);
}

TEST_F(Run, IsNotDelayedByABackgroundProcessThatKeepsThePipes) {
  const RunResult result = run_to_end(shell("sleep 600 & echo $!"));
  EXPECT_LT(result.duration, 60s);
  const pid_t background = std::stoi(result.out.data);
  EXPECT_EQ(::kill(background, SIGKILL), 0);
}

TEST_F(Run, IsNotDelayedByABackgroundProcessThatWritesForEver) {
  const RunResult result = run_to_end(shell("yes & exit 5"));  // yes(1) dies of SIGPIPE afterwards
  EXPECT_EQ(result.exit.exit_code, 5);
}

TEST_F(Run, KillsTheGroupOnTimeoutAndKeepsWhatWasWritten) {
  RunRequest request = shell("echo before; sleep 600; echo after");
  request.timeout = 2s;
  const RunResult result = run_to_end(std::move(request));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit.signal, SIGKILL);
  EXPECT_EQ(result.out.data, "before\n");
  EXPECT_GE(result.duration, 2s);
}

TEST_F(Run, TakesAnImmenseTimeoutAsNone) {
  RunRequest request = shell("true");
  request.timeout = std::chrono::milliseconds::max();
  EXPECT_FALSE(run_to_end(std::move(request)).timed_out);
}

TEST_F(Run, LeavesNothingBehindWhenTheProgramCannotBeStarted) {
  RunRequest request = shell("");
  request.process.argv = {"missing"};
  request.input = "unread";
  try {
    run_to_end(std::move(request));
    FAIL() << "the error of start() was swallowed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::command_not_started);
  }
}

TEST_F(Run, KillsTheCommandWhenItIsCancelled) {
  asio::cancellation_signal cancel;
  std::exception_ptr failure;
  auto done = [&](std::exception_ptr error, RunResult) { failure = error; };
  asio::co_spawn(io_, run(box_, shell("sleep 600")),
                 asio::bind_cancellation_slot(cancel.slot(), std::move(done)));
  io_.restart();
  io_.poll();  // the command is started now, and waited for
  EXPECT_TRUE(box_.signals.empty());
  cancel.emit(asio::cancellation_type::terminal);
  io_.run();  // ends only because nothing of the execution is left in the loop
  EXPECT_NE(failure, nullptr);
  EXPECT_THAT(box_.signals, testing::Contains(std::pair(SIGKILL, SignalTarget::group)));
}

TEST_F(Run, LeavesNothingBehindWhenTheLoopIsDestroyed) {
  auto io = std::make_unique<asio::io_context>();
  HostBox box(io->get_executor());
  RunRequest request = shell("sleep 600");
  request.timeout = 1h;
  request.input.assign(1u << 20, 'x');
  asio::co_spawn(*io, run(box, std::move(request)), [](std::exception_ptr, RunResult) {});
  io->poll();
  io.reset();
}

TEST_F(Run, RunsManyCommandsAtOnce) {
  int ended = 0;
  for (int i = 0; i < 20; ++i) {
    auto done = [&, i](std::exception_ptr error, RunResult result) {
      EXPECT_EQ(error, nullptr);
      EXPECT_EQ(result.out.data, std::to_string(i) + "\n");
      ++ended;
    };
    asio::co_spawn(io_, run(box_, shell("echo " + std::to_string(i))), std::move(done));
  }
  io_.restart();
  io_.run();
  EXPECT_EQ(ended, 20);
}

TEST(DefaultEnvironment, HasWhatEveryProgramLooksFor) {
  EXPECT_THAT(default_environment(), testing::Contains(testing::StartsWith("PATH=/")));
  EXPECT_THAT(default_environment(), testing::Contains(testing::StartsWith("HOME=/")));
  EXPECT_THAT(default_environment(), testing::Contains("LANG=C.UTF-8"));
}

TEST(EnvironmentWith, PutsNamesOverTheUsualOnes) {
  const std::vector<std::string> env = environment_with({{"HOME", "/mine"}, {"OTHER", ""}});
  EXPECT_THAT(env, testing::Contains("HOME=/mine"));
  EXPECT_THAT(env, testing::Contains("OTHER="));
  EXPECT_THAT(env, testing::Contains(testing::StartsWith("PATH=/")));
  EXPECT_THAT(env, testing::Contains(testing::StartsWith("HOME=")).Times(1));
}

}  // namespace
}  // namespace caisson::backend
