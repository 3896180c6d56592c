#include "daemon/state_dir.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"

namespace caisson::daemon {
namespace {

using testing::HasSubstr;

std::string refusal(const std::filesystem::path& path) {
  try {
    const StateDir state(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Another process that holds the directory until it is killed.
class OtherDaemon {
 public:
  explicit OtherDaemon(const std::filesystem::path& path) {
    auto [ready, tell] = make_pipe();
    pid_ = check_syscall("fork", ::fork());
    if (pid_ == 0) {
      const StateDir state(path);
      write_all(tell.get(), "x", "pipe");
      for (;;) ::pause();
    }
    tell.reset();
    char byte = 0;
    EXPECT_EQ(::read(ready.get(), &byte, 1), 1);
  }
  OtherDaemon(const OtherDaemon&) = delete;
  OtherDaemon& operator=(const OtherDaemon&) = delete;
  ~OtherDaemon() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(StateDir, IsMadeForThisUserOnly) {
  const TemporaryDirectory directory;
  const StateDir state(directory / "a/b/");
  struct stat status {};
  ASSERT_EQ(::stat((directory / "a/b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0700u);
  EXPECT_EQ(state.database(), directory / "a/b/caisson.db");
  EXPECT_EQ(read_file(directory / "a/b/lock"), str(::getpid(), "\n"));
}

TEST(StateDir, BelongsToOneDaemonAtATime) {
  const TemporaryDirectory directory;
  const std::string path = directory / "state";
  OtherDaemon other(path);
  EXPECT_EQ(refusal(path), str("state directory ", path, " is in use by pid ", other.pid(),
                               ": stop that daemon, take its place with --replace, or choose "
                               "another with --state"));
  EXPECT_EQ(refusal(directory / "another"), "");
  other.kill();  // the kernel gives the lock back
  const StateDir state(path);
  EXPECT_THAT(refusal(path), HasSubstr(str("in use by pid ", ::getpid())));
}

TEST(StateDir, CanBeTakenAgainAfterItIsGivenBack) {
  const TemporaryDirectory directory;
  { const StateDir state(directory / "s"); }
  EXPECT_EQ(read_file(directory / "s/lock"), "");
  {
    StateDir first(directory / "s");
    const StateDir moved(std::move(first));
    EXPECT_THAT(refusal(directory / "s"), HasSubstr(str("in use by pid ", ::getpid())));
  }
  EXPECT_EQ(refusal(directory / "s"), "");
}

TEST(StateDir, NamesItsHolderHoweverOftenItIsReplaced) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  for (int round = 0; round < 3; ++round) {
    OtherDaemon other(path);  // goes when it is asked to: so ends a process that does not listen
    const StateDir state(path, true);
    EXPECT_EQ(read_file(path + "/lock"), str(::getpid(), "\n"));
    EXPECT_THAT(refusal(path), HasSubstr(str("in use by pid ", ::getpid())));
  }
}

TEST(StateDir, RefusesADirectoryThatOthersCanWriteTo) {
  const TemporaryDirectory directory;
  const std::string path = directory / "open";
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  EXPECT_EQ(refusal(path), str("state directory ", path, " can be written by others: chmod 700 ",
                               path, " or choose another with --state"));
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  EXPECT_EQ(refusal(path), "");
  if (::geteuid() != 0) GTEST_SKIP() << "giving a directory away takes root";
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_THAT(refusal(path), HasSubstr("belongs to user 12345"));
}

TEST(StateDir, NamesWhatCannotBeMade) {
  const TemporaryDirectory directory;
  replace_file(directory / "file", "");
  EXPECT_THAT(refusal(directory / "file"), HasSubstr("file: Not a directory"));
  EXPECT_THAT(refusal(directory / "file/state"), HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace caisson::daemon
