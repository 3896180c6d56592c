#include "cli/one_shot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <semaphore>

#include "backend/fake/fake.h"
#include "backend/run.h"
#include "base/error.h"
#include "base/file.h"

namespace caisson::cli {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

class OneShotRun : public testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

  OneShot shell(std::string script) {
    OneShot shot;
    shot.argv = {"sh", "-c", std::move(script)};
    shot.env = backend::default_environment();
    shot.out = [this](std::string_view bytes) {
      out_.append(bytes);
      return true;
    };
    shot.err = [this](std::string_view bytes) {
      err_.append(bytes);
      return true;
    };
    return shot;
  }

  OneShotOutcome run(OneShot shot) {
    OneShotOutcome result;
    std::exception_ptr failure;
    asio::co_spawn(io_, run_one_shot(fake_, std::move(shot)),
                   [&](std::exception_ptr error, OneShotOutcome outcome) {
                     failure = error;
                     result = std::move(outcome);
                     if (!result.output_complete) io_.stop();
                   });
    io_.run();
    if (failure) std::rethrow_exception(failure);
    return result;
  }

  asio::io_context io_{1};
  backend::fake::Fake fake_{io_.get_executor()};
  std::string out_;
  std::string err_;
};

TEST_F(OneShotRun, KeepsTheStreamsApart) {
  const OneShotOutcome outcome = run(shell("echo one; echo two >&2; exit 3"));
  EXPECT_EQ(outcome.exit.exit_code, 3);
  EXPECT_EQ(out_, "one\n");
  EXPECT_EQ(err_, "two\n");
  EXPECT_TRUE(fake_.boxes().empty());
}

TEST_F(OneShotRun, TellsABoxFromItsCommand) {
  OneShot shot = shell("true");
  bool ready = false;
  shot.on_ready = [&](const model::IsolationReport& report) { ready = !report.layers.empty(); };
  run(std::move(shot));
  EXPECT_TRUE(ready);
}

TEST_F(OneShotRun, IsNotHeldUpByWhatACommandLeavesBehind) {
  const OneShotOutcome outcome = run(shell("sleep 1000 & echo done"));
  EXPECT_EQ(outcome.exit.exit_code, 0);
  EXPECT_EQ(out_, "done\n");
}

TEST_F(OneShotRun, KillsACommandAtItsTimeout) {
  OneShot shot = shell("echo part; sleep 1000");
  shot.timeout = 1ms;
  const OneShotOutcome outcome = run(std::move(shot));
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_EQ(outcome.exit.signal, SIGKILL);
}

TEST_F(OneShotRun, PassesInputOn) {
  auto [read_end, write_end] = make_pipe();
  write_all(write_end.get(), "hello", "pipe");
  write_end.reset();
  OneShot shot = shell("cat");
  shot.input = read_end.get();
  run(std::move(shot));
  EXPECT_EQ(out_, "hello");
}

TEST_F(OneShotRun, DoesNotWaitForInputThatNobodyWants) {
  auto [read_end, write_end] = make_pipe();
  OneShot shot = shell("true");
  shot.input = read_end.get();
  EXPECT_EQ(run(std::move(shot)).exit.exit_code, 0);
}

TEST_F(OneShotRun, LeavesNoBoxWhenTheCommandCannotStart) {
  OneShot shot = shell("");
  shot.argv = {"no-such-program"};
  EXPECT_THROW(run(std::move(shot)), Error);
  EXPECT_TRUE(fake_.boxes().empty());
}

TEST_F(OneShotRun, SaysWhenTheBoxIsLost) {
  OneShot shot = shell("echo ready; sleep 1000");
  shot.out = [this](std::string_view) {
    asio::post(io_, [this] { fake_.kill_box(fake_.boxes().front()); });
    return true;
  };
  try {
    run(std::move(shot));
    FAIL() << "it ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::box_lost);
  }
}

TEST_F(OneShotRun, PassesTheFirstSignalToTheCommand) {
  OneShot shot = shell("echo ready; sleep 1000");
  shot.out = [](std::string_view) { return std::raise(SIGINT) == 0; };
  const OneShotOutcome outcome = run(std::move(shot));
  EXPECT_EQ(outcome.interrupted, 0);
  EXPECT_EQ(outcome.exit.signal, SIGINT);
}

TEST_F(OneShotRun, EndsTheBoxAtTheSecondSignal) {
  OneShot shot = shell("trap '' INT; echo ready; sleep 1000");
  shot.out = [](std::string_view) {
    std::raise(SIGINT);
    std::raise(SIGINT);
    return true;
  };
  const OneShotOutcome outcome = run(std::move(shot));
  EXPECT_EQ(outcome.interrupted, SIGINT);
  EXPECT_TRUE(fake_.boxes().empty());
}

TEST_F(OneShotRun, DoesNotCatchASignalThatIsIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  OneShot shot = shell("echo ready; exit 5");
  shot.out = [](std::string_view) { return std::raise(SIGHUP) == 0; };
  EXPECT_EQ(run(std::move(shot)).exit.exit_code, 5);
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST_F(OneShotRun, LeavesAStuckSinkBehindWhenItIsTold) {
  std::binary_semaphore unstuck(0);
  std::atomic<bool> released = false;
  OneShot shot = shell("echo ready");
  shot.out = [&](std::string_view) {
    std::raise(SIGTERM);
    std::raise(SIGTERM);
    unstuck.acquire();
    released = true;
    return true;
  };
  const OneShotOutcome outcome = run(std::move(shot));
  EXPECT_EQ(outcome.interrupted, SIGTERM);
  EXPECT_FALSE(outcome.output_complete);
  EXPECT_FALSE(released);
  unstuck.release();  // a test joins all its threads
  io_.restart();
  io_.run();
}

}  // namespace
}  // namespace caisson::cli
