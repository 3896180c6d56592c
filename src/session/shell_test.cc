#include "session/shell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "session/scene_for_test.h"

namespace caisson::session {
namespace {

class NoProcess final : public backend::Process {
 public:
  std::uint64_t id() const override { return 1; }
  std::int64_t pid() const override { return 2; }
  UniqueFd take_terminal() override { return {}; }
  Task<backend::ProcessExit> wait() override { co_return backend::ProcessExit{}; }
  void signal(int, backend::SignalTarget) override {}
  bool kill_all() override { return true; }
  void put_to_use() override {}
  void settle() override {}
};

// Starts nothing: the test plays the shell, with the shell's descriptors.
class PlayedBox final : public backend::Box {
 public:
  const std::string& id() const override { return id_; }
  const model::IsolationReport& isolation() const override { return isolation_; }
  bool alive() const override { return true; }
  Task<std::unique_ptr<backend::Process>> start(backend::ProcessSpec,
                                                backend::Stdio stdio) override {
    given = std::move(stdio);
    co_return std::make_unique<NoProcess>();
  }
  Task<backend::BoxUsage> usage() override { co_return backend::BoxUsage{}; }
  Task<void> show(model::BoxSettings, model::MountSpec) override { co_return; }
  Task<void> hide(model::MountSpec) override { co_return; }
  std::optional<backend::Handover> handover() const override { return std::nullopt; }
  std::unique_ptr<backend::Process> find_process(std::uint64_t) override { return nullptr; }
  void end_unclaimed() override {}
  Task<void> destroy(std::chrono::milliseconds) override { co_return; }

  backend::Stdio given;

 private:
  std::string id_ = "played";
  model::IsolationReport isolation_;
};

class WaitingShellTest : public SessionScene {
 protected:
  // As await(), of what can only be moved.
  template <typename T>
  T take(Task<T> task) {
    const std::shared_ptr<Outcome<T>> outcome = begin(std::move(task));
    drive([&] { return outcome->done; });
    EXPECT_FALSE(outcome->code) << outcome->message;
    return std::move(*outcome->value);
  }
  WaitingShell shell() { return take(WaitingShell::start(box_, {.workdir = "/", .env = {}})); }
  // The two descriptors that a shell has besides the standard ones.
  int wait_end() const { return box_.given.more.at(0).get(); }
  int script() const { return box_.given.more.at(1).get(); }
  // It reads the line that it waits for; it ends.
  void read_line() const {
    char line = 0;
    ASSERT_EQ(::read(wait_end(), &line, 1), 1);
    EXPECT_EQ(line, '\n');
  }
  void end() { box_.given = {}; }
  // What a payload writes that opens the shell's descriptor by its name in /proc.
  void meddle() const {
    const UniqueFd other(
        ::open(str("/proc/self/fd/", wait_end()).c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (other) EXPECT_EQ(::write(other.get(), "\n", 1), 1);
  }

  PlayedBox box_;
};

TEST_F(WaitingShellTest, ThatReadItsLineHasBegun) {
  WaitingShell waiting = shell();
  ASSERT_TRUE(waiting.give("true"));
  read_line();
  end();
  EXPECT_TRUE(waiting.began());
}

TEST_F(WaitingShellTest, ThatEndedWithItsLineUnreadHasNotBegun) {
  WaitingShell waiting = shell();
  ASSERT_TRUE(waiting.give("true"));
  end();
  EXPECT_FALSE(waiting.began());
}

TEST_F(WaitingShellTest, ThatIsGoneGetsNoCommand) {
  WaitingShell waiting = shell();
  end();
  EXPECT_FALSE(waiting.give("true"));
}

TEST_F(WaitingShellTest, HasBegunWhateverAPayloadWritesIntoWhatWakesIt) {
  WaitingShell waiting = shell();
  ASSERT_TRUE(waiting.give("true"));
  read_line();
  meddle();
  end();
  EXPECT_TRUE(waiting.began()) << "the command would run a second time";
}

TEST_F(WaitingShellTest, IsNotWokenByAPayload) {
  const WaitingShell waiting = shell();
  meddle();
  set_nonblocking(wait_end());
  char line = 0;
  EXPECT_EQ(::read(wait_end(), &line, 1), -1);
}

TEST_F(WaitingShellTest, WhoseScriptWasTamperedWithGetsNoCommand) {
  WaitingShell waiting = shell();
  ASSERT_EQ(::ftruncate(script(), 4096), 0);
  EXPECT_FALSE(waiting.give("true"));
}

TEST_F(WaitingShellTest, LeavesWhatIsTooLongToAShellThatIsStartedForIt) {
  const std::string command = "echo " + std::string(ScriptFile::kMost, 'x');
  EXPECT_FALSE(shell().give(command));
  const backend::StartedCommand started =
      take(start_shell(box_, {.workdir = "/", .env = {}}, command));
  read_line();
  EXPECT_EQ(read_all(script(), "script", 1 << 20), script_of("/", command));
  EXPECT_EQ(::pwrite(script(), "x", 1, 0), -1);
}

}  // namespace
}  // namespace caisson::session
