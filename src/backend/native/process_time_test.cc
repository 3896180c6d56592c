#include "backend/native/process_time.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace caisson::backend::native {
namespace {

using namespace std::chrono_literals;

constexpr const char* kBusy = "while :; do :; done";

class ProcessTimeTest : public testing::Test {
 protected:
  void start(const char* script) {
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      ::setpgid(0, 0);
      ::execl("/bin/sh", "sh", "-c", script, nullptr);
      ::_exit(127);
    }
    ::setpgid(child_, child_);
  }
  void TearDown() override {
    if (child_ <= 0) return;
    ::kill(-child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  static bool grows_to(pid_t process, std::chrono::microseconds least) {
    const auto until = std::chrono::steady_clock::now() + 120s;
    while (time_below(process) < least) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }

  pid_t child_ = -1;
};

TEST_F(ProcessTimeTest, CountsWhatStillRunsAtAnyDepth) {
  start("(while :; do :; done) & wait");
  EXPECT_TRUE(grows_to(child_, 100ms));
}

TEST_F(ProcessTimeTest, CountsWhatHasEndedAndWasWaitedFor) {
  start("timeout 0.3 sh -c 'while :; do :; done'; exec sleep 1000");
  EXPECT_TRUE(grows_to(child_, 10ms));
}

TEST_F(ProcessTimeTest, LeavesOutTheProcessItself) {
  start(kBusy);
  EXPECT_TRUE(grows_to(::getpid(), 100ms));
  EXPECT_EQ(time_below(child_), 0us);
}

TEST(ProcessTime, FindsNothingBelowAProcessThatIsNotThere) {
  EXPECT_EQ(time_below(0x7ffffff0), 0us);
}

}  // namespace
}  // namespace caisson::backend::native
