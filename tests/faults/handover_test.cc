// What a box does for an owner that may be gone tomorrow: programs that wait for others, terminals,
// and the handover to the next owner.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "backend/keeper.h"
#include "backend/native/native.h"
#include "backend/run.h"
#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"
#include "run_body.h"

namespace caisson::faults {
namespace {

namespace asio = boost::asio;
using backend::native::Native;

model::BoxSettings spec() {
  model::BoxSettings spec;
  return spec;
}

backend::ProcessSpec shell(std::string script) {
  backend::ProcessSpec process;
  process.argv = {"/bin/sh", "-c", std::move(script)};
  process.env = backend::default_environment();
  return process;
}

backend::Stdio quiet() {
  return {.in = open_file("/dev/null", O_RDWR),
          .out = open_file("/dev/null", O_RDWR),
          .err = open_file("/dev/null", O_RDWR)};
}

// Starts it with nothing to read and nobody who reads, without waiting for it to be executed.
Task<std::unique_ptr<backend::Process>> start_quietly(backend::Box& box,
                                                      backend::ProcessSpec process) {
  process.confirm_start = false;
  backend::Stdio nothing = quiet();
  co_return co_await box.start(std::move(process), std::move(nothing));
}

// Everything until the other side is gone: EIO is how a terminal says so.
std::string read_terminal(int master) {
  std::string text;
  char buffer[256];
  pollfd readable{master, POLLIN, 0};
  while (::poll(&readable, 1, 10'000) == 1) {
    const ssize_t got = ::read(master, buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

class Handover : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: an owner's number and cgroups are root's";
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  }

  backend::native::Options options(backend::Keeper* keeper = nullptr,
                                   backend::KeptEntry inherited = {}) const {
    backend::native::Options options;
    options.state_dir = state_.path();
    options.keeper = keeper;
    options.inherited = std::move(inherited);
    return options;
  }

  TemporaryDirectory state_;
};

TEST_F(Handover, AProgramStartsWhenTheOneBeforeItHasEnded) {
  run_body([this](asio::any_io_executor executor) -> Task<void> {
    Native native(executor, options());
    model::BoxSettings wanted = spec();
    const std::unique_ptr<backend::Box> box = co_await native.create(std::move(wanted));
    backend::ProcessSpec first = shell("sleep 0.2; echo first >> /workspace/order");
    const auto one = co_await start_quietly(*box, std::move(first));
    backend::ProcessSpec second = shell("echo second >> /workspace/order; cat /workspace/order");
    second.confirm_start = false;
    second.after = one->id();
    auto [out, theirs] = make_pipe();
    backend::Stdio captured = quiet();
    captured.out = std::move(theirs);
    const auto two = co_await box->start(std::move(second), std::move(captured));
    co_await two->wait();
    EXPECT_EQ(read_all(out.get(), "output", 1000), "first\nsecond\n");

    // One that is not needed any more never starts.
    backend::ProcessSpec slow = shell("sleep 100");
    const auto running = co_await start_quietly(*box, std::move(slow));
    backend::ProcessSpec never = shell("echo never >> /workspace/order");
    never.after = running->id();
    const auto dropped = co_await start_quietly(*box, std::move(never));
    dropped->signal(SIGKILL, backend::SignalTarget::group);
    std::string refused;
    try {
      co_await dropped->wait();
    } catch (const Error& error) {
      refused = error.what();
    }
    EXPECT_NE(refused, "");
    co_await box->destroy(std::chrono::milliseconds(0));
    co_await native.stop();
  });
}

TEST_F(Handover, ATerminalIsTheBoxsOwnAndControlsItsProgram) {
  run_body([this](asio::any_io_executor executor) -> Task<void> {
    Native native(executor, options());
    model::BoxSettings wanted = spec();
    const std::unique_ptr<backend::Box> box = co_await native.create(std::move(wanted));
    backend::ProcessSpec program = shell(
        "tty; stty size; ls -l $(tty) | cut -d' ' -f3; trap 'echo caught; exit 7' INT; "
        "echo ready; read line; echo got $line; while :; do sleep 0.01; done");
    program.terminal = backend::TerminalSize{.rows = 33, .columns = 111};
    backend::Stdio none;
    const auto process = co_await box->start(std::move(program), std::move(none));
    const UniqueFd master = process->take_terminal();
    EXPECT_TRUE(master.valid());
    std::string text;
    char buffer[256];
    const auto read_until = [&](const std::string& mark) {
      while (text.find(mark) == std::string::npos) {
        const ssize_t got = ::read(master.get(), buffer, sizeof buffer);
        if (got <= 0) break;
        text.append(buffer, static_cast<std::size_t>(got));
      }
    };
    read_until("ready");
    EXPECT_NE(text.find("/dev/pts/0"), std::string::npos) << text;
    EXPECT_NE(text.find("33 111"), std::string::npos) << text;
    EXPECT_NE(text.find("box"), std::string::npos) << text;
    EXPECT_EQ(::write(master.get(), "hello\n", 6), 6);
    read_until("got hello");
    EXPECT_EQ(::write(master.get(), "\x03", 1), 1);  // Ctrl-C
    text += read_terminal(master.get());
    EXPECT_NE(text.find("caught"), std::string::npos) << text;
    const backend::ProcessExit exit = co_await process->wait();
    EXPECT_EQ(exit.exit_code, 7);
    co_await box->destroy(std::chrono::milliseconds(0));
    co_await native.stop();
  });
}

// Keeps of an owner what those left that had no locks on their groups.
class KeeperOfLocks final : public backend::Keeper {
 public:
  explicit KeeperOfLocks(backend::Keeper& keeper) : keeper_(keeper) {}
  void keep(const std::string& name, const std::string&, std::vector<int> fds) override {
    fds.resize(1);
    keeper_.keep(name, "", std::move(fds));
  }
  void drop(const std::string& name) override { keeper_.drop(name); }
  void on_loss(std::function<void()> handler) override { keeper_.on_loss(std::move(handler)); }

 private:
  backend::Keeper& keeper_;
};

// An owner that makes a box, starts two programs that are to outlive it, one that is not, and dies.
[[noreturn]] void be_an_owner_that_dies(const std::filesystem::path& state, int report,
                                        bool locks_its_groups) {
  backend::KeeperProcess keeper(state);
  KeeperOfLocks old_keeper(keeper);
  asio::io_context io;
  backend::native::Options options;
  options.state_dir = state;
  options.keeper = &old_keeper;
  if (locks_its_groups) options.keeper = &keeper;
  asio::co_spawn(
      io,
      [&]() -> Task<void> {
        Native native(io.get_executor(), std::move(options));
        model::BoxSettings wanted = spec();
        const std::unique_ptr<backend::Box> box = co_await native.create(std::move(wanted));
        std::string ids;
        for (const char* script : {"sleep 0.05; exit 5", "while :; do sleep 0.01; done"}) {
          backend::ProcessSpec process = shell(script);
          process.outlives_owner = true;
          backend::Stdio nothing = quiet();
          const auto started = co_await box->start(std::move(process), std::move(nothing));
          ids += std::to_string(started->id()) + " ";
        }
        backend::ProcessSpec short_lived = shell("exec sleep 1000");
        backend::Stdio nothing = quiet();
        co_await box->start(std::move(short_lived), std::move(nothing));
        std::optional<backend::Handover> handover = box->handover();
        keeper.keep("box", handover->description, std::move(handover->fds));
        [[maybe_unused]] const ssize_t put = ::write(report, ids.data(), ids.size());
        ::raise(SIGKILL);
      },
      [](const std::exception_ptr&) { ::_exit(1); });
  io.run();
  ::_exit(1);
}

class HandoverOf : public Handover, public testing::WithParamInterface<bool> {};

TEST_P(HandoverOf, TheNextOwnerGoesOnWithTheBoxAndItsPrograms) {
  auto [report, theirs] = make_pipe();
  const pid_t owner = ::fork();
  if (owner == 0) be_an_owner_that_dies(state_.path(), theirs.get(), GetParam());
  theirs.reset();
  const std::string ids = read_all(report.get(), "ids", 100);
  int status = 0;
  ASSERT_EQ(::waitpid(owner, &status, 0), owner);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  const std::uint64_t ending = std::stoull(ids);
  const std::uint64_t endless = std::stoull(ids.substr(ids.find(' ')));

  run_body([&](asio::any_io_executor executor) -> Task<void> {
    backend::KeeperProcess keeper(state_.path());
    backend::KeptEntries kept = keeper.take_entries();
    Native native(executor, options(&keeper, std::move(kept.at(Native::kKeptName))));
    backend::KeptEntry entry = std::move(kept.at("box"));
    model::BoxSettings same = spec();
    std::vector<std::string> descriptions{entry.data};
    co_await native.begin_adoption(std::move(descriptions));
    const std::unique_ptr<backend::Box> box =
        co_await native.adopt(std::move(same), std::move(entry.data), std::move(entry.fds));
    const auto ended = box->find_process(ending);
    const backend::ProcessExit exit = co_await ended->wait();
    EXPECT_EQ(exit.exit_code, 5);
    ended->settle();
    const auto running = box->find_process(endless);
    EXPECT_GT(running->pid(), 1);
    EXPECT_EQ(box->find_process(endless + 1), nullptr);  // it was not to outlive its owner
    backend::RunRequest look;
    look.process = shell("while ps -eo args | grep -q '^sleep 1000$'; do :; done; echo gone");
    look.timeout = std::chrono::seconds(60);
    const backend::RunResult seen = co_await backend::run(*box, std::move(look));
    EXPECT_EQ(seen.out.data, "gone\n");
    running->signal(SIGKILL, backend::SignalTarget::group);
    const backend::ProcessExit killed = co_await running->wait();
    EXPECT_EQ(killed.signal, SIGKILL);
    EXPECT_EQ(box->find_process(endless), nullptr);  // it is found once
    keeper.drop("box");
    co_await box->destroy(std::chrono::milliseconds(0));
    co_await native.stop();
    keeper.quit();
  });
}

INSTANTIATE_TEST_SUITE_P(Owners, HandoverOf, testing::Bool(), [](const auto& test) {
  return test.param ? "WithLocksOnItsGroups" : "WithoutLocksOnItsGroups";
});

}  // namespace
}  // namespace caisson::faults
