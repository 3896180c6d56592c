#include "journal/input_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "async/loop_for_test.h"
#include "base/file.h"
#include "base/temporary_directory.h"
#include "journal/input_pump.h"
#include "journal/stream_for_test.h"

namespace caisson::journal {
namespace {

namespace fs = std::filesystem;

namespace asio = boost::asio;

std::string read_some(int pipe, std::size_t size) {
  std::string bytes(size, '\0');
  bytes.resize(static_cast<std::size_t>(check_syscall("pipe", ::read(pipe, bytes.data(), size))));
  return bytes;
}

class InputLogTest : public testing::Test {
 protected:
  InputLogTest() {
    std::signal(SIGPIPE, SIG_IGN);
    std::tie(read_, write_) = make_pipe();
  }
  InputLog make(std::uint64_t max_queued = InputLog::kMaxQueued) {
    return InputLog::create(directory_.path(), "in", max_queued);
  }

  TemporaryDirectory directory_;
  UniqueFd read_;
  UniqueFd write_;
};

TEST_F(InputLogTest, WritesALineThatIsSentTwiceOnce) {
  InputLog log = make();
  EXPECT_EQ(log.append(1, "one\n"), Appended::written);
  EXPECT_EQ(log.append(1, "one\n"), Appended::already_written);
  EXPECT_EQ(log.append(5, "five\n"), Appended::written);
  EXPECT_EQ(log.append(4, "four\n"), Appended::already_written);
  EXPECT_EQ(log.append(0, "any\n"), Appended::written);
  EXPECT_EQ(log.append(0, "any\n"), Appended::written);
  EXPECT_EQ(log.last_sequence(), 5u);
  const Fed fed = log.feed(write_.get(), 1000);
  EXPECT_EQ(fed.bytes, 17u);
  EXPECT_EQ(fed.state, Fed::State::drained);
  EXPECT_EQ(read_some(read_.get(), 100), "one\nfive\nany\nany\n");
  EXPECT_EQ(log.queued(), 0u);
}

TEST_F(InputLogTest, GoesOnWithTheDescriptorThatWasKept) {
  UniqueFd kept;
  {
    InputLog log = make();
    kept = duplicate(log.descriptor(), "input log");
    log.append(1, "first ");
    log.append(2, "second ");
    EXPECT_EQ(log.feed(write_.get(), 9).state, Fed::State::more);
  }
  InputLog log = InputLog::open(directory_.path(), "in", duplicate(kept.get(), "input log")).log;
  EXPECT_EQ(log.position(), 9u);
  EXPECT_EQ(log.append(2, "second "), Appended::already_written);
  EXPECT_EQ(log.append(3, "third"), Appended::written);
  log.close();
  EXPECT_EQ(log.append(4, "late"), Appended::closed);
  EXPECT_EQ(log.append(3, "third"), Appended::already_written);
  EXPECT_EQ(log.feed(write_.get(), 1000).state, Fed::State::finished);
  EXPECT_EQ(read_some(read_.get(), 100), "first second third");
}

TEST_F(InputLogTest, IgnoresWhatWasNotAccepted) {
  InputLog log = make();
  log.append(1, "good ");
  // What a process leaves that is killed between writing and accepting.
  check_syscall("in", ::pwrite(log.descriptor(), "GARBAGE", 7, 5));
  InputLog again =
      InputLog::open(directory_.path(), "in", duplicate(log.descriptor(), "input log")).log;
  EXPECT_EQ(again.append(2, "too"), Appended::written);
  again.feed(write_.get(), 1000);
  EXPECT_EQ(read_some(read_.get(), 100), "good too");
}

TEST_F(InputLogTest, AcceptsAnyNumberOfPiecesTogether) {
  InputLog log = make();
  std::vector<std::string_view> pieces;
  std::string expected;
  for (int i = 0; i < 400; ++i) {
    for (const std::string_view piece : {"", "line", "\n"}) {
      pieces.push_back(piece);
      expected += piece;
    }
  }
  EXPECT_EQ(log.append(1, pieces), Appended::written);
  EXPECT_EQ(log.append(2, std::vector<std::string_view>{}), Appended::written);
  EXPECT_EQ(log.append(1, pieces), Appended::already_written);
  EXPECT_EQ(log.end(), expected.size());
  EXPECT_EQ(log.last_sequence(), 2u);
  log.feed(write_.get(), 1u << 20);
  EXPECT_EQ(read_some(read_.get(), 1u << 20), expected);
}

TEST_F(InputLogTest, RefusesMoreThanItMayQueue) {
  InputLog log = make(10);
  EXPECT_EQ(log.append(1, "a line longer than ten bytes"), Appended::written);
  EXPECT_EQ(log.append(2, "x"), Appended::busy);
  log.feed(write_.get(), 20);
  EXPECT_EQ(log.append(2, "123"), Appended::busy);
  log.feed(write_.get(), 20);
  EXPECT_EQ(log.append(2, "123"), Appended::written);
}

TEST_F(InputLogTest, SaysWhenThePipeIsFullOrNobodyReads) {
  InputLog log = make();
  log.append(0, stream_bytes(0, 300'000));
  const Fed full = log.feed(write_.get(), 1u << 20);
  EXPECT_EQ(full.state, Fed::State::full);
  EXPECT_GT(full.bytes, 0u);
  EXPECT_TRUE(is_stream(read_some(read_.get(), 10'000), 0));
  read_.reset();
  EXPECT_EQ(log.feed(write_.get(), 1u << 20).state, Fed::State::broken);
}

// Opened again, by the descriptor that was kept, it says what was wrong and goes on.
class DamagedInputLog : public InputLogTest {
 protected:
  DamagedInputLog() {
    InputLog log = make();
    kept_ = duplicate(log.descriptor(), "input log");
    log.append(7, "read ");
    log.feed(write_.get(), 1000);
    log.append(8, "queued ");
  }

  void expect_input(const std::string& expected, std::uint64_t last_sequence) {
    InputLog::Opened opened =
        InputLog::open(directory_.path(), "in", duplicate(kept_.get(), "input log"));
    EXPECT_NE(opened.damage, "");
    EXPECT_EQ(opened.log.last_sequence(), last_sequence);
    EXPECT_EQ(opened.log.append(0, "new"), Appended::written);
    EXPECT_EQ(opened.log.feed(write_.get(), 1000).state, Fed::State::drained);
    EXPECT_EQ(read_some(read_.get(), 100), expected);
    const InputLog again =
        InputLog::open(directory_.path(), "in", duplicate(kept_.get(), "input log")).log;
    EXPECT_EQ(again.end(), opened.log.end());
    EXPECT_EQ(again.last_sequence(), last_sequence);
  }

  UniqueFd kept_;
};

TEST_F(DamagedInputLog, LosesNothingWithItsFile) {
  fs::remove(directory_ / "in");
  expect_input("read queued new", 8);
}

TEST_F(DamagedInputLog, LosesNothingWhenItsFileIsReplaced) {
  fs::remove(directory_ / "in");
  replace_file(directory_ / "in", "something else");
  expect_input("read queued new", 8);
}

TEST_F(DamagedInputLog, GoesOnWithoutItsState) {
  fs::remove(directory_ / "in.state");
  expect_input("read queued new", 0);
}

TEST_F(DamagedInputLog, SetsAStateAsideThatIsGarbage) {
  replace_file(directory_ / "in.state", std::string(88, 'x'));
  expect_input("read queued new", 0);
  EXPECT_EQ(read_file(directory_ / "in.state.damaged-1"), std::string(88, 'x'));
}

TEST_F(DamagedInputLog, GivesNoZerosForWhatWasCut) {
  EXPECT_EQ(read_some(read_.get(), 100), "read ");
  fs::resize_file(directory_ / "in", 2);
  InputLog log = InputLog::open(directory_.path(), "in", std::move(kept_)).log;
  EXPECT_EQ(log.append(9, "new"), Appended::written);
  EXPECT_EQ(log.feed(write_.get(), 1000).state, Fed::State::drained);
  EXPECT_EQ(read_some(read_.get(), 100), "new");
}

TEST_F(DamagedInputLog, GoesOnWhenItIsCutWhileItIsOpen) {
  EXPECT_EQ(read_some(read_.get(), 100), "read ");
  InputLog log = InputLog::open(directory_.path(), "in", std::move(kept_)).log;
  fs::resize_file(directory_ / "in", 0);
  fs::resize_file(directory_ / "in.state", 0);
  EXPECT_EQ(log.feed(write_.get(), 1000).state, Fed::State::drained);
  EXPECT_EQ(log.append(8, "again"), Appended::already_written);
  EXPECT_EQ(log.append(9, "new"), Appended::written);
  EXPECT_EQ(log.feed(write_.get(), 1000).state, Fed::State::drained);
  EXPECT_EQ(read_some(read_.get(), 100), "new");
}

TEST_F(InputLogTest, CountsTheOtherStateWhenOneIsTorn) {
  InputLog log = make();
  log.append(1, "one");
  log.append(2, "two");
  std::string bytes = read_file(directory_ / "in.state");
  std::vector<std::uint64_t> memory(bytes.size() / 8);
  ASSERT_EQ(memory.size() * 8, bytes.size());
  for (std::size_t offset = 8; offset < bytes.size(); ++offset) {
    std::string torn = bytes;
    torn[offset] = static_cast<char>(torn[offset] + 1);
    std::memcpy(memory.data(), torn.data(), torn.size());
    const auto state = find_input_state(std::as_bytes(std::span(memory)));
    ASSERT_TRUE(state.has_value());
    const InputState before{.end = 3, .last_sequence = 1};
    const InputState after{.end = 6, .last_sequence = 2};
    EXPECT_TRUE(*state == before || *state == after);
  }
}

TEST_F(InputLogTest, GivesTheSpaceBackAndNeverZerosWhatIsInThePipe) {
  InputLog log = make();
  ::fcntl(write_.get(), F_SETPIPE_SZ, 1 << 20);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::mt19937 random(9);
  while (received < 64u << 20) {
    if (log.append(0, stream_bytes(sent, 700'000)) == Appended::written) sent += 700'000;
    log.feed(write_.get(), 1u << 20);
    const std::string bytes = read_some(read_.get(), 1 + random() % 1'000'000);
    ASSERT_TRUE(is_stream(bytes, received)) << received;
    received += bytes.size();
    log.feed(write_.get(), 1u << 20);
    struct stat status {};
    ::fstat(log.descriptor(), &status);
    ASSERT_LE(static_cast<std::uint64_t>(status.st_blocks) * 512,
              InputLog::kMaxQueued + (4u << 20));
  }
}

Task<void> expect_end(InputPump& pump, InputPump::End expected) {
  EXPECT_EQ(co_await pump.run(), expected);
}

TEST_F(InputLogTest, IsPumpedUntilItIsClosed) {
  InputLog log = make();
  asio::io_context io;
  InputPump pump(io.get_executor(), log, std::move(write_));
  std::uint64_t received = 0;
  bool sound = true;
  std::thread process([&, pipe = std::move(read_)] {
    for (;;) {
      const std::string bytes = read_some(pipe.get(), 50'000);
      if (bytes.empty()) break;
      sound = sound && is_stream(bytes, received);
      received += bytes.size();
    }
  });
  for (int i = 0; i < 5; ++i) {
    const auto start = static_cast<std::uint64_t>(i) * 1'000'000;
    asio::post(io, [&pump, start] { pump.append(0, stream_bytes(start, 1'000'000)); });
  }
  asio::post(io, [&pump] { pump.close(); });
  run_loop(io, expect_end(pump, InputPump::End::finished));
  process.join();
  EXPECT_TRUE(sound);
  EXPECT_EQ(received, 5'000'000u);
}

TEST_F(InputLogTest, IsPumpedUntilNobodyReads) {
  InputLog log = make();
  asio::io_context io;
  InputPump pump(io.get_executor(), log, std::move(write_));
  pump.append(1, stream_bytes(0, 500'000));
  asio::post(io, [&] { read_.reset(); });
  run_loop(io, expect_end(pump, InputPump::End::broken));
}

// What the client of the kill test remembers, and what the process got.
struct Shared {
  std::atomic<std::uint64_t> acknowledged = 0;
  std::atomic<bool> enough = false;
};

struct MessageHead {
  std::uint64_t sequence;
  std::uint64_t size;
};

std::string message(std::uint64_t sequence) {
  std::mt19937_64 random(sequence);
  const MessageHead head{.sequence = sequence,
                         .size = random() % (std::uint64_t{1} << (random() % 19))};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  return bytes + stream_bytes(sequence * 1000, head.size);
}

bool read_whole(int pipe, char* out, std::size_t size) {
  while (size > 0) {
    const ssize_t got = check_syscall("pipe", ::read(pipe, out, size));
    if (got == 0) return false;
    out += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// The process in the box: every message comes once, in order and whole.
int receive_messages(int pipe, Shared& shared) {
  std::uint64_t last = 0;
  MessageHead head{};
  while (read_whole(pipe, reinterpret_cast<char*>(&head), sizeof head)) {
    if (head.sequence != last + 1) return 2;
    std::string body(head.size, '\0');
    if (!read_whole(pipe, body.data(), body.size())) return 3;
    if (!is_stream(body, head.sequence * 1000)) return 4;
    last = head.sequence;
  }
  return last == shared.acknowledged ? 0 : 5;
}

// The daemon, and a client that sends again what was not acknowledged.
int send_messages(const TemporaryDirectory& directory, int kept, int pipe, Shared& shared) {
  InputLog log = InputLog::open(directory.path(), "in", duplicate(kept, "input log"), 4u << 20).log;
  while (!shared.enough) {
    const std::uint64_t sequence = shared.acknowledged + 1;
    if (log.append(sequence, message(sequence)) != Appended::busy) shared.acknowledged = sequence;
    if (log.feed(pipe, 1u << 20).state == Fed::State::full) wait_for(pipe, POLLOUT);
  }
  const std::uint64_t sequence = shared.acknowledged + 1;  // may have been accepted already
  while (log.append(sequence, message(sequence)) == Appended::busy) log.feed(pipe, 1u << 20);
  shared.acknowledged = sequence;
  log.close();
  while (log.feed(pipe, 1u << 20).state != Fed::State::finished) wait_for(pipe, POLLOUT);
  return 0;
}

TEST(InputLogKill, LosesAndRepeatsNothing) {
  const TemporaryDirectory directory;
  Shared& shared = shared_memory<Shared>();
  const InputLog log = InputLog::create(directory.path(), "in");
  auto [read, write] = make_pipe();
  set_nonblocking(write.get());
  const pid_t process = fork_process([&] {
    write.reset();
    return receive_messages(read.get(), shared);
  });
  read.reset();
  const auto daemon = [&] {
    return send_messages(directory, log.descriptor(), write.get(), shared);
  };
  std::mt19937 random(2);
  for (int round = 0; round < kills(); ++round) {
    const pid_t child = fork_process(daemon);
    ASSERT_EQ(kill_after(child, static_cast<unsigned>(random() % 4000)), kKilled);
  }
  shared.enough = true;
  EXPECT_EQ(wait_for_process(fork_process(daemon)), 0);
  write.reset();
  EXPECT_EQ(wait_for_process(process), 0);
  EXPECT_GT(shared.acknowledged, 0u);
}

}  // namespace
}  // namespace caisson::journal
