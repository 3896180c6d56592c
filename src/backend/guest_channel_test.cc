#include "backend/guest_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <filesystem>
#include <iterator>
#include <list>

#include "base/error.h"
#include "base/file.h"

namespace caisson::backend {
namespace {

namespace asio = boost::asio;

// How a coroutine ended: empty while it runs, then null or an exception.
using Outcome = std::optional<std::exception_ptr>;

bool succeeded(const Outcome& outcome) {
  return outcome && *outcome == nullptr;
}

// The code of the Error a coroutine ended with; nullopt when it ended in another way or not yet.
std::optional<ErrorCode> code_of(const Outcome& outcome) {
  if (!outcome || !*outcome) return std::nullopt;
  try {
    std::rethrow_exception(*outcome);
  } catch (const Error& error) {
    return error.code();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error: " << error.what();
    return std::nullopt;
  }
}

long open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries));
}

// A channel and the other end of its socket, where the test plays the guest.
class GuestChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    auto [ours, theirs] = seqpacket_pair();
    peer_ = std::move(theirs);
    channel_ = std::make_shared<GuestChannel>(io_.get_executor(), std::move(ours));
  }
  void TearDown() override {
    channel_->close();
    io_.restart();
    io_.run();
  }

  template <typename Condition>
  bool run_until(Condition condition) {
    const Deadline deadline = Clock::now() + std::chrono::seconds(10);
    io_.restart();
    while (!condition()) {
      if (io_.run_one_until(deadline) == 0) return condition();
    }
    return true;
  }
  void run_ready() {
    io_.restart();
    io_.poll();
  }

  template <typename Work>
  void spawn(Work work, Outcome& outcome) {
    asio::co_spawn(io_, std::move(work),
                   [&outcome](const std::exception_ptr& failure) { outcome = failure; });
  }

  void say(const wire::GuestMessage& message) { say_raw(wire::encode(message)); }
  void say_raw(const std::string& data) { send_packet(peer_.get(), data); }

  bool closes() {
    return run_until([this] { return !channel_->open(); }) && channel_->closed().is_set();
  }

  std::vector<UniqueFd> three_pipes() {
    std::vector<UniqueFd> fds;
    for (int i = 0; i < 3; ++i) fds.push_back(make_pipe().first);
    return fds;
  }

  // Sends until the socket takes no more; gives the number of messages that went out.
  int fill_socket() {
    const wire::OwnerMessage message = wire::Start{.argv = {std::string(40'000, 'x')}};
    for (int sent = 0;; ++sent) {
      Outcome& outcome = fillers_.emplace_back();
      spawn(channel_->send(message, {}), outcome);
      run_ready();
      if (!outcome) return sent;
    }
  }

  asio::io_context io_;
  UniqueFd peer_;
  std::shared_ptr<GuestChannel> channel_;
  std::list<Outcome> fillers_;
};

TEST_F(GuestChannelTest, FollowsAProcessFromStartToExit) {
  channel_->listen();
  const auto process = channel_->expect(7);
  const wire::Start start{.id = 7, .argv = {"/bin/true"}, .cwd = "/", .uid = 1000, .gid = 1000};
  Outcome sent;
  spawn(channel_->send(start, three_pipes()), sent);
  ASSERT_TRUE(run_until([&] { return sent.has_value(); }));
  EXPECT_TRUE(succeeded(sent));

  const std::optional<Packet> packet = receive_packet(peer_.get());
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(wire::decode_owner_message(packet->data), wire::OwnerMessage(start));
  EXPECT_EQ(packet->fds.size(), 3u);

  say(wire::Started{.id = 7, .pid = 5});
  ASSERT_TRUE(run_until([&] { return process->started.is_set(); }));
  EXPECT_EQ(process->pid, 5);
  EXPECT_FALSE(process->failure.has_value());
  EXPECT_FALSE(process->ended.is_set());

  const wire::Exited exit{.id = 7, .status = 0x300, .user_us = 1, .system_us = 2};
  say(exit);
  ASSERT_TRUE(run_until([&] { return process->ended.is_set(); }));
  EXPECT_EQ(process->exit, exit);
  EXPECT_TRUE(channel_->open());
}

TEST_F(GuestChannelTest, KeepsProcessesApart) {
  channel_->listen();
  const auto first = channel_->expect(1);
  const auto second = channel_->expect(2);
  say(wire::Started{.id = 2, .pid = 22});
  say(wire::Exited{.id = 2, .status = 9});
  say(wire::Started{.id = 1, .pid = 11});
  ASSERT_TRUE(run_until([&] { return first->started.is_set(); }));
  EXPECT_EQ(first->pid, 11);
  EXPECT_FALSE(first->ended.is_set());
  EXPECT_EQ(second->pid, 22);
  ASSERT_TRUE(second->exit.has_value());
  EXPECT_EQ(second->exit->status, 9);
}

TEST_F(GuestChannelTest, TellsOfAStartThatFailed) {
  channel_->listen();
  const auto process = channel_->expect(7);
  const wire::StartFailed failure{
      .id = 7, .step = wire::StartStep::execute, .error_number = ENOENT};
  say(failure);
  ASSERT_TRUE(run_until([&] { return process->started.is_set(); }));
  EXPECT_EQ(process->failure, failure);
  EXPECT_EQ(process->pid, 0);
  EXPECT_TRUE(process->ended.is_set());
  EXPECT_FALSE(process->exit.has_value());
  EXPECT_TRUE(channel_->open());
}

TEST_F(GuestChannelTest, TakesTheExitOfAProcessThatIsNotAnnounced) {
  channel_->listen();
  const auto process = channel_->expect(7, false);
  const wire::Exited exit{.id = 7, .status = 0x300};
  say(exit);
  ASSERT_TRUE(run_until([&] { return process->ended.is_set(); }));
  EXPECT_EQ(process->exit, exit);
  EXPECT_TRUE(channel_->open());
  say(exit);
  EXPECT_TRUE(closes());
}

TEST_F(GuestChannelTest, TellsOfAFailedStartThatIsNotAnnounced) {
  channel_->listen();
  const auto process = channel_->expect(7, false);
  say(wire::StartFailed{.id = 7});
  ASSERT_TRUE(run_until([&] { return process->ended.is_set(); }));
  EXPECT_TRUE(process->failure.has_value());
  EXPECT_FALSE(process->exit.has_value());
  EXPECT_TRUE(channel_->open());
}

TEST_F(GuestChannelTest, TakesAPongAtAnyTime) {
  channel_->listen();
  const auto process = channel_->expect(7);
  say(wire::Pong{.token = 1});
  say(wire::Started{.id = 7, .pid = 2});
  ASSERT_TRUE(run_until([&] { return process->started.is_set(); }));
  EXPECT_TRUE(channel_->open());
}

TEST_F(GuestChannelTest, ClosesOnTheExitOfAProcessThatHasNotStarted) {
  channel_->listen();
  const auto process = channel_->expect(7);
  say(wire::Exited{.id = 7});
  EXPECT_TRUE(closes());
  EXPECT_FALSE(process->exit.has_value());
}

TEST_F(GuestChannelTest, ClosesOnTheExitOfAProcessWhoseStartFailed) {
  channel_->listen();
  const auto process = channel_->expect(7);
  say(wire::StartFailed{.id = 7});
  say(wire::Exited{.id = 7});
  EXPECT_TRUE(closes());
  EXPECT_FALSE(process->exit.has_value());
}

TEST_F(GuestChannelTest, ClosesOnASecondExit) {
  channel_->listen();
  const auto process = channel_->expect(7);
  say(wire::Started{.id = 7, .pid = 5});
  say(wire::Exited{.id = 7, .status = 0x100});
  say(wire::Exited{.id = 7, .status = 0x200});
  EXPECT_TRUE(closes());
  ASSERT_TRUE(process->exit.has_value());
  EXPECT_EQ(process->exit->status, 0x100);
}

TEST_F(GuestChannelTest, ClosesOnASecondAnswerToOneStart) {
  channel_->listen();
  const auto process = channel_->expect(7);
  say(wire::Started{.id = 7, .pid = 5});
  say(wire::Started{.id = 7, .pid = 6});
  EXPECT_TRUE(closes());
  EXPECT_EQ(process->pid, 5);
}

TEST_F(GuestChannelTest, ClosesOnAFailureAfterAStart) {
  channel_->listen();
  const auto process = channel_->expect(7);
  say(wire::Started{.id = 7, .pid = 5});
  say(wire::StartFailed{.id = 7});
  EXPECT_TRUE(closes());
  EXPECT_FALSE(process->failure.has_value());
}

TEST_F(GuestChannelTest, ClosesOnAProcessThatWasForgotten) {
  channel_->listen();
  channel_->expect(7);
  channel_->forget(7);
  say(wire::Started{.id = 7, .pid = 5});
  EXPECT_TRUE(closes());
}

TEST_F(GuestChannelTest, ClosesWhenThePeerClosesAndWakesAllWaiters) {
  channel_->listen();
  const auto starting = channel_->expect(1);
  const auto running = channel_->expect(2);
  say(wire::Started{.id = 2, .pid = 22});
  ASSERT_TRUE(run_until([&] { return running->started.is_set(); }));
  Outcome start_waiter;
  Outcome exit_waiter;
  Outcome close_waiter;
  spawn(starting->started.wait(), start_waiter);
  spawn(running->ended.wait(), exit_waiter);
  spawn(channel_->closed().wait(), close_waiter);
  run_ready();
  EXPECT_FALSE(start_waiter || exit_waiter || close_waiter);

  peer_.reset();
  ASSERT_TRUE(run_until([&] { return start_waiter && exit_waiter && close_waiter; }));
  EXPECT_TRUE(succeeded(start_waiter) && succeeded(exit_waiter) && succeeded(close_waiter));
  EXPECT_EQ(starting->pid, 0);
  EXPECT_FALSE(running->exit.has_value());
  EXPECT_FALSE(channel_->open());
}

TEST_F(GuestChannelTest, DeliversWhatThePeerSaidBeforeItClosed) {
  const auto process = channel_->expect(7);
  say(wire::Started{.id = 7, .pid = 5});
  say(wire::Exited{.id = 7, .status = 0x100});
  peer_.reset();
  channel_->listen();
  EXPECT_TRUE(closes());
  ASSERT_TRUE(process->exit.has_value());
  EXPECT_EQ(process->exit->status, 0x100);
}

TEST_F(GuestChannelTest, ClosingShowsAtThePeer) {
  channel_->listen();
  channel_->close();
  channel_->close();
  EXPECT_FALSE(receive_packet(peer_.get()).has_value());
}

TEST_F(GuestChannelTest, ClosesDescriptorsNobodyAskedFor) {
  channel_->listen();
  const auto process = channel_->expect(7);
  run_ready();
  auto [read_end, write_end] = make_pipe();
  const int fds[] = {write_end.get(), write_end.get()};
  send_packet(peer_.get(), wire::encode(wire::GuestMessage(wire::Started{7, 5})), fds);
  ASSERT_TRUE(run_until([&] { return process->started.is_set(); }));
  write_end.reset();
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 0);  // no write end is left anywhere
}

TEST_F(GuestChannelTest, ClosesOnMoreThanAPacketMayHold) {
  channel_->listen();
  std::string data(kMaxPacketBytes + 1, '\x84');
  ASSERT_EQ(::send(peer_.get(), data.data(), data.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(data.size()));
  EXPECT_TRUE(closes());
}

TEST_F(GuestChannelTest, ClosesOnMoreDescriptorsThanAPacketMayHoldAndKeepsNone) {
  channel_->listen();
  run_ready();
  constexpr std::size_t kCount = kMaxPacketFds + 40;
  auto [read_end, write_end] = make_pipe();
  const long before = open_descriptors();
  std::vector<int> fds(kCount, write_end.get());
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kCount)] = {};
  char byte = '\x84';
  iovec vector{&byte, 1};
  msghdr header{.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control};
  header.msg_controllen = sizeof control;
  cmsghdr* message = CMSG_FIRSTHDR(&header);
  message->cmsg_level = SOL_SOCKET;
  message->cmsg_type = SCM_RIGHTS;
  message->cmsg_len = CMSG_LEN(sizeof(int) * kCount);
  std::copy(fds.begin(), fds.end(), reinterpret_cast<int*>(CMSG_DATA(message)));
  ASSERT_EQ(::sendmsg(peer_.get(), &header, MSG_NOSIGNAL), 1);
  EXPECT_TRUE(closes());
  EXPECT_EQ(open_descriptors(), before - 1);  // the channel's own socket
}

// Nothing but the turns of the loop ends a flood: 200 messages are there before the first turn.
TEST_F(GuestChannelTest, LetsOthersWorkWhileAGuestFloodsIt) {
  constexpr int kMessages = 200;
  std::vector<std::shared_ptr<GuestProcessState>> processes;
  for (std::uint64_t id = 0; id < kMessages; ++id) {
    processes.push_back(channel_->expect(id));
    say(wire::Started{.id = id, .pid = 5});
  }
  const auto started = [&] {
    return std::count_if(processes.begin(), processes.end(),
                         [](const auto& process) { return process->started.is_set(); });
  };
  channel_->listen();
  int turns = 0;
  ASSERT_TRUE(run_until([&] { return ++turns > 1 && started() > 0; }));
  EXPECT_LT(started(), kMessages);
  EXPECT_TRUE(run_until([&] { return started() == kMessages; }));
}

// An owner that is killed while it takes a box over has asked and not read the answer.
TEST_F(GuestChannelTest, TakesTheAnswerToItsOwnQuestionAndDropsThoseOfOthers) {
  std::optional<wire::Processes> told;
  const auto resume = [&]() -> Task<void> { told = co_await channel_->resume(33); };
  Outcome outcome;
  spawn(resume(), outcome);
  run_ready();
  const auto heard = [this] {
    return wire::decode_owner_message(receive_packet(peer_.get())->data);
  };
  EXPECT_EQ(heard(), wire::OwnerMessage(wire::Ping{33}));
  EXPECT_EQ(heard(), wire::OwnerMessage(wire::ListProcesses{}));
  // One asked before questions had tokens, one was killed before it asked, one before it read.
  say(wire::Started{.id = 1, .pid = 5});
  say(wire::Processes{.last_id = 1, .running = {{.id = 1, .pid = 5}}, .ended = {}});
  say(wire::Pong{.token = 31});
  say(wire::Pong{.token = 32});
  say(wire::Processes{.last_id = 2, .running = {{.id = 1, .pid = 5}}, .ended = {}});
  say(wire::Exited{.id = 1});
  run_ready();
  EXPECT_FALSE(outcome.has_value()) << "took an answer that was not its own";
  say(wire::Pong{.token = 33});
  say(wire::Exited{.id = 2});
  say(wire::Processes{.last_id = 3});
  ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
  EXPECT_TRUE(succeeded(outcome));
  EXPECT_EQ(told, wire::Processes{.last_id = 3});
  const auto process = channel_->expect(4);
  say(wire::Started{.id = 4, .pid = 6});
  ASSERT_TRUE(run_until([&] { return process->started.is_set(); }));
  EXPECT_TRUE(channel_->open());
}

// The same while it takes over: what was said before the list is dropped in more than one turn.
TEST_F(GuestChannelTest, LetsOthersWorkWhileAGuestFloodsTheNextOwner) {
  for (std::uint64_t token = 0; token < 200; ++token) say(wire::Pong{.token = token});
  say(wire::Processes{.last_id = 3});
  std::optional<wire::Processes> told;
  const auto resume = [&]() -> Task<void> { told = co_await channel_->resume(199); };
  Outcome outcome;
  spawn(resume(), outcome);
  bool others_worked = false;
  asio::post(io_, [&] { others_worked = !told; });
  ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
  EXPECT_TRUE(succeeded(outcome));
  EXPECT_TRUE(others_worked);
  EXPECT_EQ(told, wire::Processes{.last_id = 3});
}

TEST_F(GuestChannelTest, SendsALargeMessageInASealedMemoryFile) {
  const wire::Start start{
      .id = 7, .argv = {"/bin/echo", std::string(wire::kMaxInlineBytes, 'x')}, .cwd = "/"};
  const std::string encoded = wire::encode(wire::OwnerMessage(start));
  Outcome sent;
  spawn(channel_->send(start, three_pipes()), sent);
  ASSERT_TRUE(run_until([&] { return sent.has_value(); }));
  EXPECT_TRUE(succeeded(sent));

  const std::optional<Packet> packet = receive_packet(peer_.get());
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(wire::decode_owner_message(packet->data),
            wire::OwnerMessage(wire::Indirect{encoded.size()}));
  ASSERT_EQ(packet->fds.size(), 4u);
  const int memory = packet->fds[0].get();
  EXPECT_EQ(::fcntl(memory, F_GET_SEALS),
            F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
  std::string content(encoded.size() + 1, '\0');
  ASSERT_EQ(::pread(memory, content.data(), content.size(), 0),
            static_cast<ssize_t>(encoded.size()));
  content.resize(encoded.size());
  EXPECT_EQ(content, encoded);
}

TEST_F(GuestChannelTest, SendsTheLargestInlineMessageInline) {
  wire::Start start{.id = 7, .argv = {""}};
  const std::size_t rest = wire::encode(wire::OwnerMessage(start)).size();
  start.argv[0] = std::string(wire::kMaxInlineBytes - rest, 'x');
  Outcome sent;
  spawn(channel_->send(start, {}), sent);
  ASSERT_TRUE(run_until([&] { return sent.has_value(); }));
  const std::optional<Packet> packet = receive_packet(peer_.get());
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(packet->data.size(), wire::kMaxInlineBytes);
  EXPECT_TRUE(packet->fds.empty());
}

TEST_F(GuestChannelTest, RefusesACommandOverTheLimit) {
  const wire::OwnerMessage start =
      wire::Start{.id = 7, .argv = {std::string(wire::kMaxIndirectBytes, 'x')}};
  Outcome sent;
  spawn(channel_->send(start, {}), sent);
  ASSERT_TRUE(run_until([&] { return sent.has_value(); }));
  EXPECT_EQ(code_of(sent), ErrorCode::validation_error);
  EXPECT_TRUE(channel_->open());
}

TEST_F(GuestChannelTest, WaitsForAFullSocket) {
  const int sent = fill_socket();
  EXPECT_GT(sent, 0);
  EXPECT_FALSE(fillers_.back().has_value());
  for (int i = 0; i < sent; ++i) ASSERT_TRUE(receive_packet(peer_.get()).has_value());
  ASSERT_TRUE(run_until([&] { return fillers_.back().has_value(); }));
  EXPECT_TRUE(succeeded(fillers_.back()));
  EXPECT_TRUE(receive_packet(peer_.get()).has_value());
}

TEST_F(GuestChannelTest, DropsASignalRatherThanWaitForAFullSocket) {
  const int sent = fill_socket();
  // Small messages still find room for a while.
  for (int i = 0; i < 2000; ++i) channel_->send_now(wire::Signal{.id = 1, .signal_number = 15});
  EXPECT_TRUE(channel_->open());
  for (int i = 0; i < sent; ++i) ASSERT_TRUE(receive_packet(peer_.get()).has_value());
}

TEST_F(GuestChannelTest, SaysBoxLostToASenderThatWaitsWhenTheChannelCloses) {
  fill_socket();
  channel_->close();
  ASSERT_TRUE(run_until([&] { return fillers_.back().has_value(); }));
  EXPECT_EQ(code_of(fillers_.back()), ErrorCode::box_lost);
}

TEST_F(GuestChannelTest, SaysBoxLostToASenderThatWaitsWhenThePeerCloses) {
  fill_socket();
  peer_.reset();
  ASSERT_TRUE(run_until([&] { return fillers_.back().has_value(); }));
  EXPECT_EQ(code_of(fillers_.back()), ErrorCode::box_lost);
}

TEST_F(GuestChannelTest, SaysBoxLostToASenderAfterTheEnd) {
  channel_->close();
  Outcome sent;
  const wire::OwnerMessage ping = wire::Ping{1};
  spawn(channel_->send(ping, {}), sent);
  ASSERT_TRUE(run_until([&] { return sent.has_value(); }));
  EXPECT_EQ(code_of(sent), ErrorCode::box_lost);
  channel_->send_now(ping);
}

TEST_F(GuestChannelTest, LeavesTheCancellationOfAWaitingSenderAlone) {
  fill_socket();
  asio::cancellation_signal signal;
  Outcome cancelled;
  const wire::OwnerMessage message = wire::Start{.argv = {std::string(40'000, 'x')}};
  asio::co_spawn(
      io_, channel_->send(message, {}),
      asio::bind_cancellation_slot(
          signal.slot(), [&](const std::exception_ptr& failure) { cancelled = failure; }));
  run_ready();
  ASSERT_FALSE(cancelled.has_value());
  signal.emit(asio::cancellation_type::terminal);
  ASSERT_TRUE(run_until([&] { return cancelled.has_value(); }));
  EXPECT_THROW(std::rethrow_exception(*cancelled), boost::system::system_error);
  EXPECT_TRUE(channel_->open());
}

TEST_F(GuestChannelTest, ReceivesPacketsWithTheirDescriptorsBeforeItListens) {
  std::optional<Packet> received;
  const auto receive = [&]() -> Task<void> { received = co_await channel_->receive(); };
  Outcome outcome;
  spawn(receive(), outcome);
  run_ready();
  EXPECT_FALSE(outcome.has_value());
  const auto pipe = make_pipe();
  const int fds[] = {pipe.first.get(), pipe.second.get()};
  send_packet(peer_.get(), wire::encode(wire::GuestMessage(wire::NetworkHandover{})), fds);
  ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->fds.size(), 2u);
  EXPECT_EQ(wire::decode_guest_message(received->data),
            wire::GuestMessage(wire::NetworkHandover{}));
}

TEST_F(GuestChannelTest, SaysBoxLostToAReceiverWhenThePeerCloses) {
  const auto receive = [&]() -> Task<void> { co_await channel_->receive(); };
  Outcome outcome;
  spawn(receive(), outcome);
  run_ready();
  peer_.reset();
  ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
  EXPECT_EQ(code_of(outcome), ErrorCode::box_lost);
}

TEST_F(GuestChannelTest, SaysBoxLostToAReceiverWhenTheChannelCloses) {
  const auto receive = [&]() -> Task<void> { co_await channel_->receive(); };
  Outcome outcome;
  spawn(receive(), outcome);
  run_ready();
  channel_->close();
  ASSERT_TRUE(run_until([&] { return outcome.has_value(); }));
  EXPECT_EQ(code_of(outcome), ErrorCode::box_lost);
}

// What a guest may not say once its box is set up, whatever processes there are.
struct Misplaced {
  const char* name;
  std::string data;
};

class MisplacedMessage : public GuestChannelTest, public testing::WithParamInterface<Misplaced> {};

TEST_P(MisplacedMessage, ClosesTheChannel) {
  channel_->listen();
  const auto process = channel_->expect(7);
  say_raw(GetParam().data);
  EXPECT_TRUE(closes());
  EXPECT_TRUE(process->started.is_set());
  EXPECT_TRUE(process->ended.is_set());
  EXPECT_EQ(process->pid, 0);
  EXPECT_FALSE(receive_packet(peer_.get()).has_value());
}

std::string guest(const wire::GuestMessage& message) {
  return wire::encode(message);
}

INSTANTIATE_TEST_SUITE_P(
    GuestChannel, MisplacedMessage,
    testing::Values(Misplaced{"StartedOfAnUnknownId", guest(wire::Started{.id = 8, .pid = 5})},
                    Misplaced{"StartFailedOfAnUnknownId", guest(wire::StartFailed{.id = 8})},
                    Misplaced{"ExitedOfAnUnknownId", guest(wire::Exited{.id = 8})},
                    Misplaced{"PidZero", guest(wire::Started{.id = 7, .pid = 0})},
                    Misplaced{"PidOfTheGuest", guest(wire::Started{.id = 7, .pid = 1})},
                    Misplaced{"NegativePid", guest(wire::Started{.id = 7, .pid = -5})},
                    Misplaced{"Ready", guest(wire::Ready{})},
                    Misplaced{"SetupFailed", guest(wire::SetupFailed{"step", 1})},
                    Misplaced{"NetworkHandover", guest(wire::NetworkHandover{})},
                    Misplaced{"OwnersMessage", wire::encode(wire::OwnerMessage(wire::Ping{1}))},
                    Misplaced{"UnknownTag", std::string(1, '\xff')},
                    Misplaced{"CutShort", guest(wire::Started{.id = 7, .pid = 5}).substr(0, 12)},
                    Misplaced{"BytesAfterTheEnd", guest(wire::Started{.id = 7, .pid = 5}) + "x"},
                    Misplaced{"LargestPacket", std::string(kMaxPacketBytes, '\x81')}),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace caisson::backend
