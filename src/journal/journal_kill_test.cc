// A process that fills a journal is killed again and again, in whatever it is doing, while another
// writes the stream: no byte is lost, none comes twice.
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "base/temporary_directory.h"
#include "journal/stream_for_test.h"

namespace caisson::journal {
namespace {

struct Shared {
  std::atomic<std::uint64_t> written = 0;
  std::atomic<bool> enough = false;
};

constexpr Limits kOldest{.capacity = 8 * kBlockSize, .overflow = Overflow::release_oldest};
constexpr Limits kHold{.capacity = 8 * kBlockSize, .overflow = Overflow::hold};

// Sizes from one byte to 9 MiB, mostly small.
std::size_t random_size(std::mt19937& random) {
  return 1 + random() % (std::size_t{1} << (random() % 24)) % (9u << 20);
}

int write_stream(int pipe, Shared& shared) {
  std::mt19937 random(11);
  while (!shared.enough) {
    std::size_t left = random_size(random);
    while (left > 0 && !shared.enough) {
      const std::string bytes =
          stream_bytes(shared.written, std::min<std::size_t>(left, 64u << 10));
      write_all(pipe, bytes, "pipe");
      shared.written += bytes.size();
      left -= bytes.size();
    }
  }
  return 0;
}

// What a daemon does: it takes the journal over, drains, records, and delivers where it holds.
int keep_journal(const TemporaryDirectory& directory, const Limits& limits, int pipe,
                 std::uint32_t seed) {
  std::mt19937 random(seed);
  const Journal::Opened opened = Journal::open(directory.path(), "out", limits);
  if (opened.damage) {
    std::fprintf(stderr, "damage: %s\n", opened.damage->reason.c_str());
    return 2;
  }
  Journal& journal = *opened.journal;
  if (!holds_stream(journal)) return 3;
  for (;;) {
    const Drained drained = journal.drain(pipe, random_size(random));
    if (random() % 3 == 0) journal.index();
    if (limits.overflow == Overflow::hold) {
      const std::uint64_t from = journal.mark(Journal::kDelivered);
      const std::uint64_t to = from + random() % (journal.end() - from + 1);
      if (!is_stream(read_journal(journal, from, to), from)) return 4;
      journal.set_mark(Journal::kDelivered, to);
      journal.release_up_to(to);
    }
    if (drained.state == Drained::State::empty) wait_for(pipe, POLLIN);
    if (drained.state == Drained::State::ended) break;
  }
  journal.mark_closed();
  return 0;
}

class JournalKill : public testing::TestWithParam<Limits> {};

TEST_P(JournalKill, LosesAndRepeatsNothing) {
  const TemporaryDirectory directory;
  Shared& shared = shared_memory<Shared>();
  Journal::create(directory.path(), "out", GetParam());
  auto [read, write] = make_pipe();
  const int pipe = read.get();
  const pid_t writer = fork_process([&] { return write_stream(write.get(), shared); });
  write.reset();

  std::mt19937 random(5);
  for (int round = 0; round < kills(); ++round) {
    const auto seed = static_cast<std::uint32_t>(random());
    const pid_t keeper =
        fork_process([&] { return keep_journal(directory, GetParam(), pipe, seed); });
    ASSERT_EQ(kill_after(keeper, static_cast<unsigned>(random() % 4000)), kKilled)
        << "round " << round;
  }
  shared.enough = true;
  const pid_t last = fork_process([&] { return keep_journal(directory, GetParam(), pipe, 1); });
  EXPECT_EQ(wait_for_process(writer), 0);
  EXPECT_EQ(wait_for_process(last), 0);

  const Journal::Opened opened = Journal::open(directory.path(), "out", GetParam());
  ASSERT_FALSE(opened.damage.has_value());
  EXPECT_TRUE(opened.journal->closed());
  EXPECT_EQ(opened.journal->end(), shared.written);
  EXPECT_TRUE(holds_stream(*opened.journal));
}

INSTANTIATE_TEST_SUITE_P(BothPolicies, JournalKill, testing::Values(kOldest, kHold),
                         [](const auto& info) {
                           return info.param.overflow == Overflow::hold ? "Hold" : "ReleaseOldest";
                         });

}  // namespace
}  // namespace caisson::journal
