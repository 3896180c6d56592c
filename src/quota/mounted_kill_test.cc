#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <csignal>

#include "quota/scene_for_test.h"

namespace caisson::quota {
namespace {

constexpr Limit kSmall{.bytes = 2u << 20, .inodes = 64};
constexpr Limit kLarge{.bytes = 8u << 20, .inodes = 128};

// Runs the work in a process that is killed when it enters or leaves its n-th system call from
// here. True when it came to its end before.
bool ends_before_call(int number, const std::function<void()>& work) {
  const pid_t child = check_syscall("fork", ::fork());
  if (child == 0) {
    int status = 1;
    try {
      check_syscall("ptrace", ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr));
      ::raise(SIGSTOP);
      work();
      status = 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(status);
  }
  int status = 0;
  check_syscall("waitpid", ::waitpid(child, &status, 0));
  for (int call = 0; call < number && WIFSTOPPED(status); ++call) {
    // Signals are the kernel's own business here: a child of the child has ended.
    check_syscall("ptrace", ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr));
    check_syscall("waitpid", ::waitpid(child, &status, 0));
  }
  if (WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return true;
  }
  check_syscall("kill", ::kill(child, SIGKILL));
  check_syscall("waitpid", ::waitpid(child, &status, 0));
  return false;
}

class KilledDaemon : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string reason = reason_to_skip(GetParam()); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }

  // Kills the work at every so many system calls, each time on a directory that `prepare` made,
  // and lets `check` look at what the next daemon makes of it. Images take longer, so there the
  // steps are larger; each run begins elsewhere, so that runs together try every call.
  void kill_everywhere(int stride, const std::function<void(Driver&)>& prepare,
                       const std::function<void(Driver&)>& work,
                       const std::function<void(Driver&)>& check) {
    if (std::string(GetParam()) == "loop") stride *= 5;
    bool ended = false;
    for (int number = 1 + ::getpid() % stride; !ended && !HasFailure(); number += stride) {
      SCOPED_TRACE(str("killed at call ", number));
      const Scene scene;
      directory_ = scene / "a";
      const std::filesystem::path state = scene / "quota";
      std::filesystem::create_directories(directory_ / "sub");
      write_text(directory_ / "sub/file", "content");
      write_text(directory_ / "file", "more");
      content_ = contents(directory_);
      prepare(*mounted_driver(GetParam(), state));
      ended = ends_before_call(number, [&] { work(*mounted_driver(GetParam(), state)); });
      const auto next = mounted_driver(GetParam(), state);
      const Recovery recovery = next->recover();
      for (const std::string& problem : recovery.problems) ADD_FAILURE() << problem;
      check(*next);
      EXPECT_LE(mounts_below(scene.path()).size(), 1u);
      EXPECT_LE(loop_devices_below(scene.path()).size(), 1u);
      next->apply(directory_, kSmall);
      next->release(directory_, Data::remove);
      EXPECT_TRUE(mounts_below(scene.path()).empty());
      EXPECT_TRUE(loop_devices_below(scene.path()).empty());
      EXPECT_TRUE(contents(scene.path()) == (std::map<std::string, std::string>{{"quota", "/"}}));
    }
  }

  std::filesystem::path directory_;
  std::map<std::string, std::string> content_;
};

TEST_P(KilledDaemon, LosesNothingWhileItBringsADirectoryIn) {
  kill_everywhere(
      7, [](Driver&) {}, [&](Driver& driver) { driver.apply(directory_, kSmall); },
      [&](Driver&) { EXPECT_EQ(contents(directory_), content_); });
}

TEST_P(KilledDaemon, LosesNothingWhileItChangesALimit) {
  kill_everywhere(
      11, [&](Driver& driver) { driver.apply(directory_, kSmall); },
      [&](Driver& driver) { driver.apply(directory_, kLarge); },
      [&](Driver& driver) {
        EXPECT_EQ(contents(directory_), content_);
        driver.apply(directory_, kLarge);
        EXPECT_EQ(driver.usage(directory_).limit, kLarge);
        EXPECT_EQ(contents(directory_), content_);
      });
}

TEST_P(KilledDaemon, LosesNothingWhileItGivesADirectoryBack) {
  kill_everywhere(
      7, [&](Driver& driver) { driver.apply(directory_, kSmall); },
      [&](Driver& driver) { driver.release(directory_, Data::keep); },
      [&](Driver&) { EXPECT_EQ(contents(directory_), content_); });
}

INSTANTIATE_TEST_SUITE_P(Drivers, KilledDaemon, testing::Values("loop", "tmpfs"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace caisson::quota
