#include "base/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <array>

#include "base/error.h"
#include "base/file.h"

namespace caisson {
namespace {

// Runs a shell script with its output in a pipe and returns what it wrote.
std::string output_of(const std::string& script, std::vector<std::string> env = {}) {
  auto [read_end, write_end] = make_pipe();
  Command command{.argv = {"/bin/sh", "-c", script},
                  .env = std::move(env),
                  .fds = {{write_end.get(), 1}, {write_end.get(), 2}}};
  ChildProcess child = spawn(command);
  write_end.reset();
  std::string output = read_all(read_end.get(), "pipe");
  child.wait();
  return output;
}

TEST(Spawn, GivesTheChildExactlyTheEnvironmentAsked) {
  EXPECT_EQ(output_of("echo \"$A-$HOME-\"", {"A=one two"}), "one two--\n");
}

TEST(Spawn, GivesTheChildExactlyTheDescriptorsAsked) {
  const UniqueFd inheritable(::open("/dev/null", O_RDONLY));  // no CLOEXEC, on purpose
  ASSERT_TRUE(inheritable.valid());
  EXPECT_EQ(output_of("for n in 0 1 2 3 4 5 6 7 8 9; do "
                      "[ -e /proc/$$/fd/$n ] && echo $n; done; true"),
            "1\n2\n");
}

TEST(Spawn, MovesDescriptorsThatCrossEachOther) {
  auto [first_read, first_write] = make_pipe();
  auto [second_read, second_write] = make_pipe();
  Command command{.argv = {"/bin/sh", "-c", "echo low >&\"$LOW\"; echo high >&\"$HIGH\""}};
  // Each descriptor lands on the number that the other one has here.
  command.fds = {{first_write.get(), second_write.get()}, {second_write.get(), first_write.get()}};
  command.env = {"LOW=" + std::to_string(second_write.get()),
                 "HIGH=" + std::to_string(first_write.get())};
  if (first_write.get() > 9 || second_write.get() > 9) GTEST_SKIP() << "sh knows fds 0 to 9";
  ChildProcess child = spawn(command);
  first_write.reset();
  second_write.reset();
  EXPECT_EQ(read_all(first_read.get(), "pipe"), "low\n");
  EXPECT_EQ(read_all(second_read.get(), "pipe"), "high\n");
  EXPECT_EQ(child.wait(), 0);
}

TEST(Spawn, ExecutesAnOpenProgramWhateverArgvSays) {
  Command command{.program = open_file("/bin/sh", O_RDONLY),
                  .argv = {"a name of its own", "-c", "exit 7"}};
  EXPECT_EQ(WEXITSTATUS(spawn(command).wait()), 7);
}

TEST(Spawn, NeverFallsBackFromTheOpenProgramToThePathInArgv) {
  Command command{.program = open_file("/bin/sh", O_RDONLY), .argv = {"/bin/true"}};
  // Leave room for the pidfd alone, on 0: the child then cannot keep its copy of the program.
  const UniqueFd saved_input(::fcntl(0, F_DUPFD_CLOEXEC, 3));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit tight{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ::close(0);
  ::setrlimit(RLIMIT_NOFILE, &tight);
  bool refused = false;
  try {
    spawn(command).wait();
  } catch (const SystemError&) {
    refused = true;
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  if (saved_input) ::dup2(saved_input.get(), 0);
  EXPECT_TRUE(refused);
}

TEST(Spawn, NamesTheProgramThatCannotBeExecuted) {
  Command command{.argv = {"/no/such/program"}};
  try {
    spawn(command);
    FAIL() << "it was executed";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_STREQ(error.what(), "/no/such/program: No such file or directory");
  }
}

TEST(Spawn, RefusesACommandWithoutAName) {
  try {
    spawn(Command{});
    FAIL() << "it was executed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal_error);
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
}

TEST(Spawn, StartsTheChildWithNoSignalBlockedOrIgnored) {
  sigset_t usr1;
  sigset_t before;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &usr1, &before), 0);
  const auto handler_before = ::signal(SIGPIPE, SIG_IGN);
  const std::string masks = output_of("grep -E '^Sig(Blk|Ign)' /proc/self/status");
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, &before, &after);
  ::signal(SIGPIPE, handler_before);
  EXPECT_EQ(sigismember(&after, SIGUSR1), 1) << "the caller's own mask must survive";
  EXPECT_EQ(masks, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(ChildProcess, ReportsTheSignalThatEndedIt) {
  Command command{.argv = {"/bin/sh", "-c", "kill -9 $$"}};
  const int status = spawn(command).wait();
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(ChildProcess, IsEmptyAfterWaitAndCannotBeKilledAnyMore) {
  Command command{.argv = {"/bin/true"}};
  ChildProcess child = spawn(command);
  EXPECT_TRUE(child.running());
  EXPECT_GT(child.pid(), 0);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(child.running());
  EXPECT_FALSE(child.kill(SIGTERM));
}

TEST(ChildProcess, IsKilledAndReapedByItsDestructor) {
  auto [read_end, write_end] = make_pipe();
  pid_t pid = -1;
  {
    Command command{.argv = {"/bin/cat"}, .fds = {{read_end.get(), 0}}};
    ChildProcess child = spawn(command);
    pid = child.pid();
  }
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ChildProcess, EndsTheOldChildWhenAnotherIsAssigned) {
  auto [read_end, write_end] = make_pipe();
  Command waits{.argv = {"/bin/cat"}, .fds = {{read_end.get(), 0}}};
  Command ends{.argv = {"/bin/true"}};
  ChildProcess child = spawn(waits);
  const pid_t first = child.pid();
  child = spawn(ends);
  EXPECT_NE(child.pid(), first);
  EXPECT_EQ(::waitpid(first, nullptr, WNOHANG), -1);
  EXPECT_EQ(child.wait(), 0);
}

int exit_with(void* status) {
  ::_exit(*static_cast<int*>(status));
}

TEST(StartSharingMemory, RunsTheEntryOnItsOwnStack) {
  alignas(16) static std::array<char, 64 * 1024> stack;
  int wanted = 9;
  const pid_t pid = start_sharing_memory(exit_with, &wanted, stack.data() + stack.size(), nullptr);
  ASSERT_GT(pid, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 9);
}

}  // namespace
}  // namespace caisson
