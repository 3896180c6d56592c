#include "backend/keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"

namespace caisson::backend {
namespace {

// The process at the other end of the directory's socket.
pid_t keeper_of(const TemporaryDirectory& directory) {
  const KeeperProcess visitor(directory.path());
  return visitor.pid();
}

class KeeperTest : public testing::Test {
 protected:
  ~KeeperTest() override { KeeperProcess(directory_.path()).quit(); }

  TemporaryDirectory directory_;
};

TEST_F(KeeperTest, GivesTheNextOwnerWhatTheLastOneLeft) {
  auto [read_end, write_end] = make_pipe();
  {
    KeeperProcess keeper(directory_.path());
    EXPECT_TRUE(keeper.take_entries().empty());
    keeper.keep("a", "data of a", {read_end.get(), write_end.get()});
    keeper.keep("b", "", {});
    keeper.keep("c", "gone", {});
    keeper.drop("c");
    keeper.keep("b", "again", {});
  }
  ASSERT_EQ(::write(write_end.get(), "x", 1), 1);
  read_end.reset();
  write_end.reset();
  KeeperProcess keeper(directory_.path());
  KeptEntries entries = keeper.take_entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries["b"].data, "again");
  EXPECT_EQ(entries["a"].data, "data of a");
  ASSERT_EQ(entries["a"].fds.size(), 2u);
  char byte = 0;
  EXPECT_EQ(::read(entries["a"].fds[0].get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(KeeperTest, KeepsDataOfAnySize) {
  const std::string large(5u << 20, 'd');
  KeeperProcess(directory_.path()).keep("large", large, {});
  EXPECT_EQ(KeeperProcess(directory_.path()).take_entries()["large"].data, large);
}

TEST_F(KeeperTest, ClosesWhatIsDropped) {
  auto [read_end, write_end] = make_pipe();
  KeeperProcess keeper(directory_.path());
  keeper.keep("end", "", {write_end.get()});
  write_end.reset();
  keeper.drop("end");
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 0);  // waits until the keeper has let go
}

TEST_F(KeeperTest, EndsWhenItHoldsNothingAndNobodyIsThere) {
  const pid_t first = keeper_of(directory_);
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, first, 0)));
  if (process) {
    pollfd ended{process.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, 10'000), 1);
  }
}

TEST_F(KeeperTest, IsReplacedWhenItIsKilled) {
  KeeperProcess keeper(directory_.path());
  keeper.keep("a", "one", {});
  int lost = 0;
  keeper.on_loss([&] {
    ++lost;
    keeper.keep("a", "two", {});
  });
  ASSERT_EQ(::kill(keeper.pid(), SIGKILL), 0);
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, keeper.pid(), 0)));
  pollfd ended{process.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, 10'000), 1);
  keeper.keep("b", "three", {});
  EXPECT_EQ(lost, 1);
  KeptEntries entries = KeeperProcess(directory_.path()).take_entries();
  EXPECT_EQ(entries["a"].data, "two");
  EXPECT_EQ(entries["b"].data, "three");
}

TEST_F(KeeperTest, IsNotReplacedWhenItOnlyDoesNotAnswer) {
  pid_t pid = -1;
  {
    KeeperProcess keeper(directory_.path());
    keeper.keep("a", "one", {});
    pid = keeper.pid();
  }
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  try {
    const KeeperProcess impatient(directory_.path(), std::chrono::milliseconds(50));
    ADD_FAILURE() << "did not wait for process " << pid;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::busy);
    EXPECT_NE(std::string(error.what()).find(str("process ", pid)), std::string::npos);
  }
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  KeeperProcess keeper(directory_.path());
  EXPECT_EQ(keeper.pid(), pid);
  EXPECT_EQ(keeper.take_entries()["a"].data, "one");
}

// Everything would be lost with the keeper, and is there for an owner that may have more.
TEST_F(KeeperTest, IsNotReplacedWhenWhatItHoldsDoesNotFit) {
  auto [read_end, write_end] = make_pipe();
  {
    KeeperProcess keeper(directory_.path());
    keeper.keep("a", "one", std::vector<int>(16, read_end.get()));
  }
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(read_end.get());
  ::close(next);
  const rlimit few{static_cast<rlim_t>(next) + 8, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::optional<ErrorCode> refused;
  try {
    const KeeperProcess poor(directory_.path());
  } catch (const Error& error) {
    refused = error.code();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(refused, ErrorCode::busy);
  EXPECT_EQ(KeeperProcess(directory_.path()).take_entries()["a"].fds.size(), 16u);
}

TEST_F(KeeperTest, IsReplacedWhenItTakesNothing) {
  KeeperProcess keeper(directory_.path());
  const pid_t stopped = keeper.pid();
  keeper.on_loss([&] { keeper.keep("a", "again", {}); });
  ASSERT_EQ(::kill(stopped, SIGSTOP), 0);
  const std::string data(64u << 10, 'd');
  for (int i = 0; keeper.pid() == stopped && i < 1000; ++i) keeper.keep("b", data, {});
  EXPECT_NE(keeper.pid(), stopped);
  KeptEntries entries = KeeperProcess(directory_.path()).take_entries();
  EXPECT_EQ(entries["a"].data, "again");
  EXPECT_EQ(entries["b"].data, data);
}

TEST_F(KeeperTest, OutlivesAnOwnerThatIsKilled) {
  auto [read_end, write_end] = make_pipe();
  const pid_t owner = ::fork();
  if (owner == 0) {
    KeeperProcess keeper(directory_.path());
    keeper.keep("pipe", "of the dead", {read_end.get()});
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(owner, &status, 0), owner);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(KeeperProcess(directory_.path()).take_entries()["pipe"].data, "of the dead");
}

}  // namespace
}  // namespace caisson::backend
