#include "backend/native/lock_census.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace caisson::backend::native {
namespace {

constexpr pid_t kHostProcess = 10;  // everybody from 100 on is in the box of guest 100, 200 ...

LockCensus census(LockCensus::HasOpen has_open = [](pid_t, const std::string&) { return true; }) {
  const auto find_guest = [](pid_t process) -> std::optional<pid_t> {
    if (process < 100) return std::nullopt;
    return process / 100 * 100;
  };
  return {find_guest, std::move(has_open)};
}

// False when the census wants to see no more.
bool count(LockCensus& census, pid_t holder, std::uint64_t locks,
           std::string_view file = "fe:00:12") {
  bool more = true;
  for (std::uint64_t i = 0; i < locks && more; ++i) {
    more = census.count(str(i, ": POSIX  ADVISORY  WRITE ", holder, " ", file, " 0 EOF"));
  }
  return more;
}

TEST(ParseLock, ReadsTheHolderAndTheFileOfALock) {
  EXPECT_EQ(parse_lock("1: POSIX  ADVISORY  WRITE 4711 fe:00:9977926 1976868 1976868"),
            (HeldLock{.holder = 4711, .file = "fe:00:9977926"}));
  EXPECT_EQ(parse_lock("2: OFDLCK ADVISORY  WRITE -1 00:2a:7 0 EOF"),
            (HeldLock{.holder = -1, .file = "00:2a:7"}));
}

TEST(ParseLock, TakesWhatIsWaitedForAndWhatIsNoLockForNone) {
  EXPECT_EQ(parse_lock("1: -> POSIX  ADVISORY  WRITE 4711 fe:00:12 0 EOF"), std::nullopt);
  EXPECT_EQ(parse_lock(""), std::nullopt);
  EXPECT_EQ(parse_lock("a b c d e f"), std::nullopt);
}

TEST(LockCensus, FindsTheBoxWhoseProcessesTogetherHoldTooMany) {
  LockCensus all = census();
  EXPECT_TRUE(count(all, kHostProcess, 3 * kMostLocks));
  EXPECT_TRUE(count(all, 101, kMostLocks));
  EXPECT_TRUE(count(all, 201, kMostLocks));
  EXPECT_EQ(all.culprit(), std::nullopt);
  EXPECT_FALSE(count(all, 202, 1));
  EXPECT_EQ(all.culprit(), (LockCensus::Culprit{.guest = 200, .locks = kMostLocks + 1}));
}

TEST(LockCensus, AccusesNobodyWhoGotTheNumberOfADeadHolder) {
  LockCensus all = census([](pid_t process, const std::string&) { return process != 101; });
  EXPECT_TRUE(count(all, 101, 2 * kMostLocks, "fe:00:77"));
  EXPECT_EQ(all.culprit(), std::nullopt);
  EXPECT_EQ(all.crowded_file(), "fe:00:77");
}

TEST(LockCensus, NamesTheFileWhoseManyLocksAreOfNobodyWhoIsThere) {
  LockCensus all = census();
  EXPECT_TRUE(count(all, kHostProcess, kMostLocks, "fe:00:1"));
  EXPECT_EQ(all.crowded_file(), std::nullopt);
  EXPECT_TRUE(count(all, -1, kMostLocks + 1, "fe:00:2"));
  EXPECT_EQ(all.crowded_file(), "fe:00:2");
}

TEST(KernelGrowth, IsWorthALookOnlyWhenTheKernelsMemoryHasGrownByMuch) {
  const auto meminfo = [](int mib) {
    return str("Slab:             999 kB\nSUnreclaim:     ", mib * 1024,
               " kB\nKernelStack: 1 kB\n");
  };
  KernelGrowth growth;
  EXPECT_FALSE(growth.worth_a_look(meminfo(500)));
  EXPECT_FALSE(growth.worth_a_look(meminfo(520)));
  EXPECT_FALSE(growth.worth_a_look(meminfo(490)));
  EXPECT_TRUE(growth.worth_a_look(meminfo(522)));
  EXPECT_FALSE(growth.worth_a_look(meminfo(522))) << "the same growth twice";
  EXPECT_TRUE(growth.worth_a_look(meminfo(560)));
  EXPECT_FALSE(growth.worth_a_look("MemTotal: 1 kB\n"));
}

}  // namespace
}  // namespace caisson::backend::native
