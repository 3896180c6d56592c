#include "backend/guest_box.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <limits>
#include <string>

#include "backend/no_resources_for_test.h"
#include "base/error.h"
#include "base/seqpacket.h"
#include "base/str.h"

namespace caisson::backend {
namespace {

namespace asio = boost::asio;

// A box that another owner made, whose guest is played by the test.
class GuestBoxTakeover : public testing::Test {
 protected:
  GuestBoxTakeover() {
    auto [ours, theirs] = seqpacket_pair();
    peer_ = std::move(theirs);
    channel_ = std::make_shared<GuestChannel>(io_.get_executor(), std::move(ours));
  }
  ~GuestBoxTakeover() override {
    channel_->close();
    run_ready();
  }

  void say(const wire::GuestMessage& message) { send_packet(peer_.get(), wire::encode(message)); }
  void run_ready() {
    io_.restart();
    io_.poll();
  }

  Task<void> resume() {
    const wire::Processes told = co_await channel_->resume(kToken);
    box_ =
        std::make_unique<GuestBox>("box", channel_, GuestBox::Identity{}, model::IsolationReport{},
                                   std::make_shared<NoResources>(), told);
  }

  // What comes of the guest's list: nullopt when the box was taken over.
  std::optional<ErrorCode> take_over(const wire::Processes& processes) {
    say(wire::Pong{kToken});
    say(processes);
    std::optional<std::exception_ptr> outcome;
    asio::co_spawn(io_, resume(), [&](const std::exception_ptr& end) { outcome = end; });
    run_ready();
    if (!outcome) throw Error(ErrorCode::internal_error, "the list was not read");
    try {
      if (*outcome) std::rethrow_exception(*outcome);
      return std::nullopt;
    } catch (const Error& error) {
      return error.code();
    }
  }

  // How the process ended, once that is known.
  void follow(Process& process, std::optional<ProcessExit>& exit) {
    asio::co_spawn(io_, process.wait(), [&exit](const std::exception_ptr& failure, ProcessExit e) {
      if (!failure) exit = e;
    });
  }

  static constexpr std::uint64_t kToken = 7;

  asio::io_context io_;
  UniqueFd peer_;
  std::shared_ptr<GuestChannel> channel_;
  std::unique_ptr<GuestBox> box_;
};

TEST_F(GuestBoxTakeover, FollowsWhatTheLastOwnerStarted) {
  ASSERT_EQ(take_over({.last_id = 9,
                       .running = {{.id = 7, .pid = 12, .remember = true}, {.id = 9, .pid = 13}},
                       .ended = {{.id = 8, .status = 0x300, .user_us = 5, .system_us = 6}}}),
            std::nullopt);
  EXPECT_EQ(box_->find_process(9), nullptr);
  const auto ended = box_->find_process(8);
  const auto running = box_->find_process(7);
  ASSERT_TRUE(ended && running);
  EXPECT_EQ(running->pid(), 12);
  std::optional<ProcessExit> first;
  std::optional<ProcessExit> second;
  follow(*ended, first);
  follow(*running, second);
  run_ready();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->exit_code, 3);
  EXPECT_EQ(first->user_time, std::chrono::microseconds(5));
  EXPECT_FALSE(second.has_value());
  say(wire::Exited{.id = 7, .status = 9});
  run_ready();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->signal, 9);
}

TEST_F(GuestBoxTakeover, CutsTimesThatNoProcessCanHaveUsed) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  ASSERT_EQ(take_over({.last_id = 2,
                       .running = {{.id = 1, .pid = 2, .remember = true}},
                       .ended = {{.id = 2, .user_us = kMost, .system_us = kMost / 2}}}),
            std::nullopt);
  say(wire::Exited{.id = 1, .user_us = kMost / 2, .system_us = kMost / 2});
  for (const std::uint64_t id : {1u, 2u}) {
    const auto process = box_->find_process(id);
    ASSERT_TRUE(process);
    std::optional<ProcessExit> exit;
    follow(*process, exit);
    run_ready();
    ASSERT_TRUE(exit.has_value());
    EXPECT_GT(exit->user_time.count(), 0);
    EXPECT_GT((exit->user_time + exit->system_time).count(), exit->user_time.count());
  }
}

TEST_F(GuestBoxTakeover, GivesUpABoxWhoseProcessIsKilledAndDoesNotEnd) {
  ASSERT_EQ(take_over({.last_id = 7, .running = {{.id = 7, .pid = 12, .remember = true}}}),
            std::nullopt);
  const auto process = box_->find_process(7);
  ASSERT_TRUE(process);
  std::string failure;
  asio::co_spawn(io_, process->wait(), [&](const std::exception_ptr& thrown, const ProcessExit&) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      failure = str(to_string(error.code()), ": ", error.what());
    }
  });
  process->signal(SIGTERM, SignalTarget::group);
  process->signal(SIGKILL, SignalTarget::group);
  const Deadline deadline = Clock::now() + std::chrono::seconds(60);
  io_.restart();
  while (failure.empty() && io_.run_one_until(deadline) > 0) {
  }
  EXPECT_EQ(failure,
            "box_lost: the box was destroyed because a process in it was killed and did not end");
  EXPECT_FALSE(box_->alive());
}

// One of two processes with the same id would be waited for without end.
struct Contradiction {
  const char* name;
  wire::Processes processes;
};

class ContradictoryProcesses : public GuestBoxTakeover,
                               public testing::WithParamInterface<Contradiction> {};

TEST_P(ContradictoryProcesses, AreRefused) {
  EXPECT_EQ(take_over(GetParam().processes), ErrorCode::protocol_error);
  EXPECT_EQ(box_, nullptr);
}

wire::Processes list(std::uint64_t last_id, std::vector<wire::RunningProcess> running,
                     std::vector<wire::Exited> ended = {}) {
  return {.last_id = last_id, .running = std::move(running), .ended = std::move(ended)};
}

INSTANTIATE_TEST_SUITE_P(
    GuestBox, ContradictoryProcesses,
    testing::Values(Contradiction{"RunningTwice", list(7, {{7, 12, true}, {7, 13, false}})},
                    Contradiction{"RunningAndEnded", list(7, {{7, 12, true}}, {{.id = 7}})},
                    Contradiction{"EndedTwice", list(7, {}, {{.id = 7}, {.id = 7}})},
                    Contradiction{"RunningBehindTheLastId", list(7, {{8, 12, true}})},
                    Contradiction{"EndedBehindTheLastId", list(7, {}, {{.id = 8}})},
                    Contradiction{"NoIdLeft", list(std::numeric_limits<std::uint64_t>::max(), {})},
                    Contradiction{"PidOfTheGuest", list(7, {{7, 1, true}})},
                    Contradiction{"NegativePid", list(7, {{7, -5, true}})}),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace caisson::backend
