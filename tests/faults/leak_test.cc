// Nothing of a box stays on the host: after a thousand boxes, and when the guest, the launcher or
// the caller itself is killed at a random moment.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "async/event.h"
#include "backend/native/native.h"
#include "backend/native/tools.h"
#include "backend/run.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"
#include "host_state.h"
#include "run_body.h"

namespace caisson::faults {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using backend::native::Native;
using namespace std::chrono_literals;

int count_from_environment(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : fallback;
}

backend::native::Options options(const fs::path& state) {
  return {.state_dir = state, .allow_missing = {}, .withhold = {}};
}

model::BoxSettings spec() {
  model::BoxSettings spec;
  return spec;
}

backend::RunRequest request(const std::string& script) {
  backend::RunRequest request;
  request.process.argv = {"/bin/sh", "-c", script};
  request.process.env = backend::default_environment();
  return request;
}

// Runs one coroutine to its end and gives back its exception.
Task<void> use_box(Native& native) {
  const std::unique_ptr<backend::Box> box = co_await native.create(spec());
  backend::RunRequest command = request("echo in a box; sleep 1000 &");
  const backend::RunResult result = co_await backend::run(*box, std::move(command));
  if (result.exit.signal == 0 && result.out.data != "in a box\n") {
    throw Error(ErrorCode::internal_error, str("the command said: ", result.out.data));
  }
  co_await box->destroy(0ms);
}

// Coroutines that run beside the one that waits for them all.
class Crew {
 public:
  explicit Crew(asio::any_io_executor executor) : executor_(executor), done_(executor) {}
  void add(Task<void> task) {
    ++running_;
    asio::co_spawn(executor_, std::move(task), [this](std::exception_ptr error) {
      if (error) failure_ = error;
      if (--running_ == 0) done_.set();
    });
  }
  Task<void> join() {
    co_await done_.wait();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  asio::any_io_executor executor_;
  int running_ = 0;
  Event done_;
  std::exception_ptr failure_;
};

class Leaks : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: cgroups and host ids of boxes are root's";
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans come to us, so their end is seen
    backend::native::Tools(state_.path()).shown();     // makes their place, which stays
    before_ = observe(state_.path());
  }

  // The kernel takes network namespaces apart in the background; nothing else may need time.
  void expect_nothing_left() {
    const Deadline deadline = Clock::now() + 30s;
    std::string left;
    do {
      left = leftovers(before_, observe(state_.path()));
      if (left.empty()) return;
      std::this_thread::yield();
    } while (Clock::now() < deadline);
    FAIL() << left;
  }

  void reap_everything() {
    const Deadline deadline = Clock::now() + 30s;
    for (;;) {
      const pid_t pid = ::waitpid(-1, nullptr, WNOHANG | __WALL);
      if (pid < 0) return;
      ASSERT_LT(Clock::now(), deadline) << "processes of a dead owner are still running";
      if (pid == 0) std::this_thread::yield();
    }
  }

  TemporaryDirectory state_;
  HostState before_;
  std::mt19937 random_{20260101};
};

TEST_F(Leaks, AThousandBoxesLeaveNothingBehind) {
  const int boxes = count_from_environment("CAISSON_TEST_BOXES", 1000);
  run_body([&](asio::any_io_executor executor) -> Task<void> {
    Native native(executor, options(state_.path()));
    int done = 0;
    // Four at a time, so that creating, running and destroying overlap.
    auto worker = [&]() -> Task<void> {
      while (done < boxes) {
        ++done;
        co_await use_box(native);
      }
    };
    Crew crew(executor);
    for (int i = 0; i < 4; ++i) crew.add(worker());
    co_await crew.join();
    co_await native.stop();
  });
  reap_everything();
  expect_nothing_left();
}

std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream file(str("/proc/", parent, "/task/", parent, "/children"));
  std::vector<pid_t> pids;
  for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
  return pids;
}

// The launcher, which is a child of the caller, and the guests of living boxes, which are the
// launcher's.
std::vector<pid_t> launchers_and_guests(pid_t caller) {
  std::vector<pid_t> found = children_of(caller);
  for (const pid_t launcher : children_of(caller)) {
    for (const pid_t guest : children_of(launcher)) found.push_back(guest);
  }
  return found;
}

TEST_F(Leaks, KillingGuestsAndLaunchersAtRandomMomentsLeavesNothingBehind) {
  const int rounds = count_from_environment("CAISSON_TEST_KILLS", 150);
  int failed_calls = 0;
  run_body([&](asio::any_io_executor executor) -> Task<void> {
    Native native(executor, options(state_.path()));
    bool stop = false;
    auto killer = [&]() -> Task<void> {
      asio::steady_timer timer(executor);
      while (!stop) {
        timer.expires_after(std::chrono::microseconds(random_() % 4000));
        co_await timer.async_wait(asio::use_awaitable);
        const std::vector<pid_t> targets = launchers_and_guests(::getpid());
        if (!targets.empty()) ::kill(targets[random_() % targets.size()], SIGKILL);
      }
    };
    Crew crew(executor);
    crew.add(killer());
    for (int i = 0; i < rounds; ++i) {
      try {
        co_await use_box(native);
      } catch (const Error& error) {
        // The box or its maker was killed: the call fails with a code that says so, and the next
        // goes on.
        ++failed_calls;
        EXPECT_TRUE(error.code() == ErrorCode::box_lost ||
                    error.code() == ErrorCode::backend_unavailable ||
                    error.code() == ErrorCode::isolation_unavailable)
            << to_string(error.code()) << ": " << error.what();
      }
    }
    stop = true;
    co_await crew.join();
    co_await use_box(native);  // still of use
    co_await native.stop();
  });
  EXPECT_GT(failed_calls, 0) << "no kill ever hit";
  reap_everything();
  expect_nothing_left();
}

// The caller in another process, which is then killed.
pid_t start_caller(const fs::path& state, int progress) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  try {
    run_body([&](asio::any_io_executor executor) -> Task<void> {
      Native native(executor, options(state));
      for (;;) {
        co_await use_box(native);
        write_all(progress, ".", "progress");
      }
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caller: %s\n", error.what());
  }
  ::_exit(1);
}

TEST_F(Leaks, KillingTheCallerAtARandomMomentLeavesNothingBehind) {
  const int rounds = count_from_environment("CAISSON_TEST_CALLERS", 25);
  for (int round = 0; round < rounds; ++round) {
    auto [progress, report] = make_pipe();
    const pid_t caller = start_caller(state_.path(), report.get());
    ASSERT_GT(caller, 0);
    report.reset();
    const unsigned boxes = static_cast<unsigned>(random_() % 4);
    for (unsigned i = 0; i < boxes; ++i) {
      char byte = 0;
      ASSERT_EQ(::read(progress.get(), &byte, 1), 1) << "the caller ended by itself";
    }
    // The random moment is what is tested, not waited for.
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 12000));
    // In every third round the launcher, who would clean up, dies as well.
    if (round % 3 == 0) {
      for (const pid_t launcher : children_of(caller)) ::kill(launcher, SIGKILL);
    }
    ::kill(caller, SIGKILL);
    reap_everything();
  }
  // The next owner finds what the dead left where nobody could clean up.
  run_body([&](asio::any_io_executor executor) -> Task<void> {
    Native native(executor, options(state_.path()));
    co_await use_box(native);
    co_await native.stop();
  });
  reap_everything();
  expect_nothing_left();
}

}  // namespace
}  // namespace caisson::faults
