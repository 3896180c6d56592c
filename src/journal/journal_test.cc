#include "journal/journal.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "base/temporary_directory.h"
#include "journal/crc32c.h"
#include "journal/stream_for_test.h"

namespace caisson::journal {
namespace {

constexpr std::uint64_t kSmall = 4 * kBlockSize;

std::uint64_t disk_usage(const std::filesystem::path& path) {
  struct stat status {};
  check_syscall(path.native(), ::stat(path.c_str(), &status));
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

class JournalTest : public testing::Test {
 protected:
  JournalTest() { std::tie(read_, write_) = make_pipe(); }

  std::unique_ptr<Journal> make(std::uint64_t capacity = kSmall,
                                Overflow overflow = Overflow::release_oldest) {
    return Journal::create(directory_.path(), "out", {.capacity = capacity, .overflow = overflow});
  }
  std::unique_ptr<Journal> reopen() {
    Journal::Opened opened = Journal::open(directory_.path(), "out", {});
    EXPECT_FALSE(opened.damage.has_value()) << opened.damage->reason;
    return std::move(opened.journal);
  }
  // Writes into the pipe and drains, by turns, what the stream has next.
  void put(Journal& journal, std::uint64_t size) {
    while (size > 0) {
      const std::size_t piece = std::min<std::uint64_t>(size, 60'000);
      put(journal, stream_bytes(written_, piece));
      size -= piece;
    }
  }
  void put(Journal& journal, std::string_view text) {
    write_all(write_.get(), text, "pipe");
    written_ += text.size();
    drain_all(journal, read_.get());
  }

  TemporaryDirectory directory_;
  UniqueFd read_;
  UniqueFd write_;
  std::uint64_t written_ = 0;
};

TEST_F(JournalTest, KeepsWhatWasWrittenAtItsOffset) {
  const auto journal = make();
  EXPECT_EQ(journal->end(), 0u);
  put(*journal, "hello ");
  put(*journal, "world");
  EXPECT_EQ(journal->end(), 11u);
  EXPECT_EQ(read_journal(*journal, 0, 11), "hello world");
  EXPECT_EQ(read_journal(*journal, 6, 9), "wor");
  EXPECT_EQ(read_file(directory_ / "out"), "hello world");
}

TEST_F(JournalTest, ReleasesNothingThatSomebodyHasToRead) {
  const auto journal = make();
  put(*journal, kSmall / 2);
  journal->hold_from(kBlockSize);
  put(*journal, kSmall / 2 + kBlockSize - 1);
  EXPECT_FALSE(journal->full());
  put(*journal, 1);
  EXPECT_TRUE(journal->full());
  write_all(write_.get(), "waits", "pipe");
  EXPECT_EQ(journal->drain(read_.get(), 100).state, Drained::State::held);
  EXPECT_EQ(read_journal(*journal, kBlockSize, journal->end()).size(), kSmall);
  journal->hold_from(kBlockSize + 5);
  EXPECT_EQ(drain_all(*journal, read_.get()).bytes, 5u);
  journal->hold_from(Journal::kNobody);
  put(*journal, 2 * kSmall);
  EXPECT_GT(journal->begin(), kBlockSize);
}

TEST_F(JournalTest, TakesTheLastBytesOfAProcessIntoItsSlack) {
  const auto journal = make(kSmall, Overflow::hold);
  put(*journal, kSmall);
  const std::size_t slack = Journal::slack(journal->limits());
  const std::string rest = stream_bytes(written_, slack);
  write_all(write_.get(), rest, "pipe");
  EXPECT_EQ(drain_all(*journal, read_.get()).state, Drained::State::held);
  journal->use_slack(true);
  EXPECT_EQ(drain_all(*journal, read_.get()).bytes, slack);
  EXPECT_EQ(read_journal(*journal, kSmall, kSmall + slack), rest);
  EXPECT_EQ(reopen()->end(), kSmall + slack);
}

TEST_F(JournalTest, HasRoomForTheLongestLineHoweverSmallItIs) {
  for (const Overflow overflow : {Overflow::release_oldest, Overflow::hold}) {
    written_ = 0;
    auto journal = make(kSmall, overflow);
    put(*journal, 12'345);
    journal->release_up_to(12'345);
    journal->hold_from(12'345);
    put(*journal, kSmall);
    EXPECT_TRUE(journal->full());
    EXPECT_EQ(journal->longest_line(), kLongestLine);
    journal->hold_from(12'345, journal->longest_line() + 1);
    EXPECT_FALSE(journal->full());
    put(*journal, kLongestLine + 1 - kSmall);
    EXPECT_TRUE(journal->full());
    // The process ends: what is left in its pipe comes behind it.
    const std::uint64_t slack = Journal::slack(journal->limits());
    journal->use_slack(true);
    put(*journal, slack);
    journal->use_slack(false);
    EXPECT_EQ(journal->end(), 12'345 + kLongestLine + 1 + slack);

    // A daemon that is killed finds all of it; without the reader no more comes, or the oldest go.
    journal->index();
    journal = reopen();
    EXPECT_TRUE(is_stream(read_journal(*journal, 12'345, journal->end()), 12'345));
    EXPECT_EQ(journal->full(), overflow == Overflow::hold);
    if (overflow == Overflow::hold) {
      EXPECT_EQ(journal->drain(read_.get(), 100).state, Drained::State::held);
      journal->release_up_to(journal->end());
    }
    put(*journal, 1);
    EXPECT_LE(journal->end() - journal->begin(), kSmall + 2 * kBlockSize);
    EXPECT_LE(disk_usage(directory_ / "out"), kSmall + 3 * kBlockSize);
    Journal::remove(directory_.path(), "out");
  }
}

// That has entries for the capacity and its slack, and none for a line.
std::string index_of_an_earlier_release(std::string index) {
  constexpr std::size_t kFixed = 32;
  constexpr std::size_t kHeader = 128;
  constexpr std::size_t kEntry = 32;
  const std::uint64_t ring_size = (kSmall + kSmall / 8 + kBlockSize) / kBlockSize + 2;
  std::memcpy(index.data() + kFixed - sizeof ring_size, &ring_size, sizeof ring_size);
  const std::uint64_t check = crc32c({index.data(), kFixed});
  std::memcpy(index.data() + kFixed, &check, sizeof check);
  index.resize(kHeader + ring_size * kEntry);
  return index;
}

TEST_F(JournalTest, TakesOverTheIndexOfAnEarlierReleaseWithTheLinesThatItHasRoomFor) {
  make(kSmall, Overflow::hold);
  const std::string path = directory_ / "out.index";
  const std::string index = index_of_an_earlier_release(read_file(path));
  ASSERT_LT(index.size(), std::filesystem::file_size(path));
  write_all(open_file(path, O_WRONLY | O_TRUNC).get(), index, path);
  auto journal = reopen();
  EXPECT_LT(journal->longest_line(), kLongestLine);
  EXPECT_GE(journal->longest_line(), kSmall);
  journal->hold_from(0, journal->longest_line() + 1);
  put(*journal, journal->longest_line() + 1);
  EXPECT_TRUE(journal->full());
  journal->use_slack(true);
  put(*journal, Journal::slack(journal->limits()));
  journal->index();
  journal = reopen();
  EXPECT_EQ(journal->begin(), 0u);
  EXPECT_TRUE(holds_stream(*journal));
}

TEST_F(JournalTest, SaysWhyItMovesNoMore) {
  const auto journal = make();
  EXPECT_EQ(journal->drain(read_.get(), 100).state, Drained::State::empty);
  write_all(write_.get(), "abcdef", "pipe");
  const Drained some = journal->drain(read_.get(), 4);
  EXPECT_EQ(some.bytes, 4u);
  EXPECT_EQ(some.state, Drained::State::more);
  write_.reset();
  const Drained last = journal->drain(read_.get(), 100);
  EXPECT_EQ(last.bytes, 2u);
  EXPECT_EQ(last.state, Drained::State::ended);
  EXPECT_FALSE(journal->closed());
  journal->mark_closed();
  EXPECT_TRUE(journal->closed());
}

TEST_F(JournalTest, RefusesAnOffsetBehindTheEnd) {
  const auto journal = make();
  put(*journal, "abc");
  char buffer[4];
  EXPECT_EQ(journal->read(3, buffer).bytes, 0u);
  EXPECT_THROW(journal->read(4, buffer), Error);
  EXPECT_THROW(journal->release_up_to(4), Error);
}

TEST_F(JournalTest, IsNotCreatedTwiceAndNotInADirectoryThatIsNotThere) {
  const auto journal = make();
  EXPECT_THROW(make(), SystemError);
  EXPECT_THROW(Journal::open(directory_ / "none", "out", {}), SystemError);
  EXPECT_THROW(Journal::create(directory_.path(), "none", {.capacity = 0}), Error);
  Journal::remove(directory_.path(), "out");
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(JournalTest, IsFoundAgainAsItWas) {
  {
    const auto journal = make(kSmall, Overflow::hold);
    put(*journal, 3 * kBlockSize + 5);
    journal->release_up_to(1234);
    journal->set_mark(Journal::kDelivered, 1234);
    journal->set_mark(kMarks - 1, 42);
    journal->mark_closed();
  }
  const auto journal = reopen();
  EXPECT_EQ(journal->limits(), (Limits{.capacity = kSmall, .overflow = Overflow::hold}));
  EXPECT_EQ(journal->begin(), 0u);
  EXPECT_EQ(journal->end(), 3 * kBlockSize + 5);
  EXPECT_EQ(journal->mark(Journal::kReleased), 1234u);
  EXPECT_EQ(journal->mark(Journal::kDelivered), 1234u);
  EXPECT_EQ(journal->mark(kMarks - 1), 42u);
  EXPECT_TRUE(journal->closed());
  EXPECT_TRUE(holds_stream(*journal));
}

TEST_F(JournalTest, ReleasesTheOldestAndSaysWhatIsGone) {
  auto journal = make();
  put(*journal, 40 * kBlockSize + 77);
  EXPECT_EQ(journal->end(), 40 * kBlockSize + 77);
  EXPECT_GE(journal->end() - journal->begin(), kSmall);
  EXPECT_LE(journal->end() - journal->begin(), kSmall + 2 * kBlockSize);
  EXPECT_TRUE(holds_stream(*journal));
  char buffer[10];
  const ReadResult gone = journal->read(100, buffer);
  EXPECT_TRUE(gone.truncated);
  EXPECT_EQ(gone.bytes, 0u);
  EXPECT_EQ(gone.begin, journal->begin());
  EXPECT_LE(disk_usage(directory_ / "out"), kSmall + 3 * kBlockSize);

  const std::uint64_t begin = journal->begin();
  journal.reset();
  journal = reopen();
  EXPECT_EQ(journal->begin(), begin);
  EXPECT_TRUE(holds_stream(*journal));
}

TEST_F(JournalTest, IsSoundAndBoundedHoweverOftenItIsTakenOver) {
  make();
  for (int round = 0; round < 100; ++round) {
    const auto journal = reopen();
    ASSERT_TRUE(holds_stream(*journal));
    ASSERT_LE(journal->end() - journal->begin(), kSmall + 2 * kBlockSize);
    write_all(write_.get(), stream_bytes(written_, kBlockSize), "pipe");
    written_ += kBlockSize;
    ASSERT_EQ(journal->drain(read_.get(), kBlockSize).bytes, kBlockSize);
  }
}

TEST_F(JournalTest, HoldsTheProcessUntilItsOutputIsReleased) {
  const auto journal = make(kSmall, Overflow::hold);
  put(*journal, kSmall - 10);
  write_all(write_.get(), stream_bytes(written_, 100), "pipe");
  const Drained held = journal->drain(read_.get(), 1000);
  EXPECT_EQ(held.bytes, 10u);
  EXPECT_EQ(held.state, Drained::State::held);
  EXPECT_EQ(journal->drain(read_.get(), 1000).state, Drained::State::held);
  journal->release_up_to(50);
  EXPECT_EQ(journal->drain(read_.get(), 1000).bytes, 50u);
  journal->release_up_to(journal->end());
  EXPECT_EQ(journal->drain(read_.get(), 1000).bytes, 40u);
  EXPECT_EQ(journal->end(), kSmall + 90);
  EXPECT_TRUE(holds_stream(*journal));
}

TEST_F(JournalTest, GivesTheSpaceOfReleasedOutputBack) {
  const auto journal = make(kSmall, Overflow::hold);
  for (int i = 0; i < 200; ++i) {
    put(*journal, 50'001);
    ASSERT_TRUE(holds_stream(*journal));
    journal->release_up_to(journal->end());
    ASSERT_LE(disk_usage(directory_ / "out"), kSmall + 2 * kBlockSize);
  }
  EXPECT_EQ(journal->end(), 200u * 50'001);
}

TEST_F(JournalTest, KeepsReleasedOutputForAsLongAsThereIsRoom) {
  const auto journal = make(kSmall, Overflow::hold);
  put(*journal, kSmall);
  journal->release_up_to(journal->end());
  EXPECT_EQ(journal->begin(), 0u);
  put(*journal, kSmall);
  EXPECT_EQ(journal->end() - journal->begin(), kSmall);
  // A reader that was cut off goes on where it was, and is waited for again.
  journal->hold_from(journal->begin());
  EXPECT_TRUE(journal->full());
}

TEST_F(JournalTest, FindsThePlaceOfATime) {
  const auto journal = make(64 * kBlockSize);
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const auto next_instant = [&] {
    const auto start = now();
    while (now() == start) std::this_thread::yield();
    return now();
  };
  EXPECT_EQ(journal->offset_at_time(now()), 0u);
  put(*journal, 5 * kBlockSize);
  journal->index();
  const auto between = next_instant();
  put(*journal, 5 * kBlockSize + 9);
  journal->index();
  EXPECT_EQ(journal->offset_at_time(0), 0u);
  EXPECT_EQ(journal->offset_at_time(between), 5 * kBlockSize);
  EXPECT_EQ(journal->offset_at_time(next_instant()), 10 * kBlockSize);
}

TEST_F(JournalTest, FindsTheLastLines) {
  const auto journal = make();
  EXPECT_EQ(journal->offset_of_last_lines(3), 0u);
  put(*journal, "a\nbb\nccc");
  EXPECT_EQ(journal->offset_of_last_lines(0), 8u);
  EXPECT_EQ(journal->offset_of_last_lines(1), 5u);
  EXPECT_EQ(journal->offset_of_last_lines(2), 2u);
  EXPECT_EQ(journal->offset_of_last_lines(3), 0u);
  EXPECT_EQ(journal->offset_of_last_lines(99), 0u);
  put(*journal, "\n");
  EXPECT_EQ(journal->offset_of_last_lines(1), 5u);
}

// The plain way: look at every byte that is kept.
std::uint64_t last_lines_of(const Journal& journal, std::uint64_t count) {
  const std::string kept = read_journal(journal, journal.begin(), journal.end());
  if (count == 0) return journal.end();
  std::size_t at = kept.size();
  if (at > 0 && kept[at - 1] == '\n') --at;
  while (at > 0) {
    if (kept[at - 1] == '\n' && --count == 0) break;
    --at;
  }
  return journal.begin() + at;
}

TEST_F(JournalTest, FindsTheLastLinesByItsIndexAsByLooking) {
  std::mt19937 random(3);
  for (const Overflow overflow : {Overflow::release_oldest, Overflow::hold}) {
    const auto journal = make(kSmall, overflow);
    for (int round = 0; round < 60; ++round) {
      put(*journal, 1 + random() % 60'000);
      if (overflow == Overflow::hold && journal->end() - journal->begin() > kSmall / 2) {
        journal->release_up_to(journal->end() - random() % (kSmall / 2));
      }
      if (random() % 2 == 0) journal->index();
      for (const std::uint64_t count : {0u, 1u, 2u, 7u, 300u, 700u, 900u, 1100u, 100000u}) {
        ASSERT_EQ(journal->offset_of_last_lines(count), last_lines_of(*journal, count))
            << "round " << round << ", " << count << " lines";
      }
    }
    Journal::remove(directory_.path(), "out");
    written_ = 0;
  }
}

TEST_F(JournalTest, StaysBoundedInAFlood) {
  constexpr std::uint64_t kFlood = 512u << 20;
  constexpr std::uint64_t kCapacity = 16u << 20;
  const auto journal = make(kCapacity);
  ::fcntl(read_.get(), F_SETPIPE_SZ, 1 << 20);
  const std::string period = stream_bytes(0, 1u << 20);
  std::thread writer([&] {
    for (std::uint64_t done = 0; done < kFlood; done += period.size()) {
      write_all(write_.get(), period, "pipe");
    }
    write_.reset();
  });
  std::uint64_t largest = 0;
  for (Drained::State state{}; state != Drained::State::ended;) {
    wait_for(read_.get(), POLLIN);
    state = journal->drain(read_.get(), 8u << 20).state;
    largest = std::max(largest, disk_usage(directory_ / "out"));
  }
  writer.join();
  EXPECT_EQ(journal->end(), kFlood);
  EXPECT_LE(largest, kCapacity + kCapacity / 8 + (2u << 20));
  for (std::uint64_t at = (journal->begin() | ((1u << 20) - 1)) + 1; at < kFlood; at += 1u << 20) {
    ASSERT_EQ(read_journal(*journal, at, at + period.size()), period);
  }
}

int bytes_in(int pipe) {
  int bytes = 0;
  check_syscall("pipe", ::ioctl(pipe, FIONREAD, &bytes));
  return bytes;
}

// In a mount namespace of its own, with a file system that is soon full.
int fill_a_small_file_system(const std::filesystem::path& directory) {
  check_syscall("mount /", ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
  check_syscall("mount", ::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m"));
  auto [read, write] = make_pipe();
  check_syscall("pipe", ::fcntl(read.get(), F_SETPIPE_SZ, 1 << 20));
  const std::string filler = (directory / "filler").native();
  write_all(open_file(filler, O_WRONLY | O_CREAT, 0600).get(), std::string(512u << 10, 'x'),
            filler);
  const auto journal = Journal::create(directory, "out", {});
  write_all(write.get(), stream_bytes(0, 800u << 10), "pipe");
  try {
    drain_all(*journal, read.get());
    return 2;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::storage_full) throw;
  }
  if (journal->end() == 0 || !holds_stream(*journal)) return 3;
  if (journal->end() + static_cast<std::uint64_t>(bytes_in(read.get())) != 800u << 10) return 4;
  check_syscall(filler, ::unlink(filler.c_str()));
  drain_all(*journal, read.get());
  return journal->end() == 800u << 10 && holds_stream(*journal) ? 0 : 5;
}

TEST(JournalStorage, LosesNothingWhenThereIsNoSpace) {
  const TemporaryDirectory directory;
  constexpr int kNotAllowed = 77;
  const pid_t child = fork_process([&] {
    if (::unshare(CLONE_NEWNS) != 0) return kNotAllowed;
    return fill_a_small_file_system(directory.path());
  });
  const int status = wait_for_process(child);
  if (status == kNotAllowed) GTEST_SKIP() << "no mount namespace of its own: run it as root";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace caisson::journal
