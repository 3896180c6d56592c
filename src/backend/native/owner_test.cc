#include "backend/native/owner.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/temporary_directory.h"

namespace caisson::backend::native {
namespace {

class OwnerTest : public testing::Test {
 protected:
  std::filesystem::path directory() const { return temporary_.path() / "run" / "caisson"; }
  bool has_lock_file(unsigned number) const {
    return std::filesystem::exists(directory() / str("owner-", number, ".lock"));
  }
  static std::set<unsigned> dead_owners(const Owner& owner, bool cleaned) {
    std::set<unsigned> numbers;
    owner.with_dead_owners([&](unsigned number) {
      EXPECT_TRUE(numbers.insert(number).second);
      return cleaned;
    });
    return numbers;
  }

  TemporaryDirectory temporary_;
};

// Another process that owns boxes, until it is killed.
class OtherOwner {
 public:
  explicit OtherOwner(const std::filesystem::path& directory) {
    auto [read_end, write_end] = make_pipe();
    pid_ = check_syscall("fork", ::fork());
    if (pid_ == 0) live(directory, write_end.get());
    write_end.reset();
    check_syscall("the other owner",
                  ::read(read_end.get(), &number_, sizeof number_) == sizeof number_ ? 0 : -1);
  }
  OtherOwner(const OtherOwner&) = delete;
  OtherOwner& operator=(const OtherOwner&) = delete;
  ~OtherOwner() { kill(); }

  unsigned number() const { return number_; }
  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void live(const std::filesystem::path& directory, int report) {
    try {
      const Owner owner(directory);
      const unsigned number = owner.number();
      if (::write(report, &number, sizeof number) == sizeof number) {
        for (;;) ::pause();
      }
    } catch (const std::exception&) {
    }
    ::_exit(1);
  }

  pid_t pid_ = -1;
  unsigned number_ = 0;
};

TEST_F(OwnerTest, TakesTheLowestFreeNumber) {
  auto first = std::make_unique<Owner>(directory());
  const Owner second(directory());
  EXPECT_EQ(first->number(), 0u);
  EXPECT_EQ(second.number(), 1u);
  first.reset();
  const Owner third(directory());
  EXPECT_EQ(third.number(), 0u);
}

TEST_F(OwnerTest, LeavesNothingBehind) {
  { const Owner owner(directory()); }
  EXPECT_TRUE(std::filesystem::is_empty(directory()));
}

TEST_F(OwnerTest, MakesADirectoryForItselfAlone) {
  const Owner owner(directory());
  struct stat info {};
  ASSERT_EQ(::stat(directory().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  EXPECT_EQ(info.st_uid, ::geteuid());
}

TEST_F(OwnerTest, TakesNoDirectoryOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  std::filesystem::create_directories(directory());
  ASSERT_EQ(::chown(directory().c_str(), 12345, 12345), 0);
  try {
    const Owner owner(directory());
    FAIL() << "took it as number " << owner.number();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::backend_unavailable);
    EXPECT_NE(std::string(error.what()).find(directory().native() + " belongs to uid 12345"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(OwnerTest, FollowsNoSymbolicLinkToALock) {
  std::filesystem::create_directories(directory());
  std::filesystem::create_symlink(temporary_ / "elsewhere", directory() / "owner-0.lock");
  EXPECT_THROW(Owner{directory()}, SystemError);
  EXPECT_FALSE(std::filesystem::exists(temporary_ / "elsewhere"));
}

TEST_F(OwnerTest, KnowsWhoLives) {
  const Owner owner(directory());
  auto other = std::make_unique<Owner>(directory());
  const unsigned number = other->number();
  EXPECT_TRUE(owner.is_live(owner.number()));
  EXPECT_TRUE(owner.is_live(number));
  EXPECT_FALSE(owner.is_live(number + 1));
  other.reset();
  EXPECT_FALSE(owner.is_live(number));
}

TEST_F(OwnerTest, LeavesTheLivingAlone) {
  const Owner owner(directory());
  const Owner same_process(directory());
  const OtherOwner other(directory());
  EXPECT_TRUE(owner.is_live(other.number()));
  EXPECT_EQ(dead_owners(owner, true), std::set<unsigned>());
  EXPECT_TRUE(has_lock_file(other.number()));
}

TEST_F(OwnerTest, FindsAKilledOwnerAndForgetsItOnceItIsCleaned) {
  const Owner owner(directory());
  OtherOwner other(directory());
  const unsigned dead = other.number();
  EXPECT_NE(dead, owner.number());
  other.kill();
  EXPECT_FALSE(owner.is_live(dead));
  EXPECT_TRUE(has_lock_file(dead));
  EXPECT_EQ(dead_owners(owner, true), std::set<unsigned>{dead});
  EXPECT_FALSE(has_lock_file(dead));
  EXPECT_EQ(dead_owners(owner, true), std::set<unsigned>());
}

TEST_F(OwnerTest, ComesBackToAnOwnerThatCouldNotBeCleaned) {
  const Owner owner(directory());
  OtherOwner other(directory());
  const unsigned dead = other.number();
  other.kill();
  EXPECT_EQ(dead_owners(owner, false), std::set<unsigned>{dead});
  EXPECT_TRUE(has_lock_file(dead));
  EXPECT_EQ(dead_owners(owner, true), std::set<unsigned>{dead});
}

TEST_F(OwnerTest, KnowsThatItsNumberWasADeadOnes) {
  { EXPECT_FALSE(Owner(directory()).follows_dead()); }
  { EXPECT_FALSE(Owner(directory()).follows_dead()) << "it gave the number back"; }
  OtherOwner killed(directory());
  killed.kill();
  EXPECT_TRUE(Owner(directory()).follows_dead());
}

TEST_F(OwnerTest, GivesANumberToNobodyWhileItIsCleaned) {
  const Owner owner(directory());
  OtherOwner other(directory());
  other.kill();
  int calls = 0;
  owner.with_dead_owners([&](unsigned dead) {
    ++calls;
    EXPECT_NE(Owner(directory()).number(), dead);
    return true;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(Owner(directory()).number(), other.number());
}

TEST_F(OwnerTest, PassesOverANumberThatSomebodyHasElsewhere) {
  const Owner::Claim above_two = [](unsigned number) { return number > 2; };
  {
    const Owner owner(directory(), {}, above_two);
    EXPECT_EQ(owner.number(), 3u);
    EXPECT_FALSE(has_lock_file(0)) << "it is not dead: there is nothing to be remembered";
    EXPECT_EQ(Owner(directory()).number(), 0u);
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory()));
}

TEST_F(OwnerTest, InheritsANumberFromWhomeverSawAnotherDirectory) {
  Owner before(temporary_.path() / "other");
  before.abandon();
  const auto left = [&] { return duplicate(before.lock(), "lock"); };
  const Owner::Claim never = [](unsigned) { return false; };
  {
    const Owner next(directory(), {.lock = left(), .number = 7}, never);
    EXPECT_EQ(next.number(), 7u);
    EXPECT_TRUE(has_lock_file(7));
    // A number that is somebody's here is his as well: their groups keep them apart.
    EXPECT_EQ(Owner(directory(), {.lock = left(), .number = 7}, never).number(), 7u);
    EXPECT_TRUE(has_lock_file(7));
  }
  EXPECT_EQ(Owner(directory(), {.lock = left(), .number = {}}).number(), 0u);
}

TEST_F(OwnerTest, ForgetsWhomItOnlySuspected) {
  const Owner owner(directory());
  int calls = 0;
  owner.with_dead_owners([&](unsigned number) { return ++calls, number != 5; }, {5});
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(has_lock_file(5));
}

TEST_F(OwnerTest, LooksAtLocksOfOwnersOnly) {
  const Owner owner(directory());
  for (const char* name : {"owner-.lock", "owner-x.lock", "owner--1.lock", "owner-4096.lock",
                           "owner-99999999999999999999.lock", "owner-5", "other-5.lock", "5"}) {
    replace_file(directory() / name, "");
  }
  EXPECT_EQ(dead_owners(owner, true), std::set<unsigned>());
}

// A lock may be taken on a file whose last holder is just removing it: that lock is worth nothing.
// Owners that come and go as fast as they can meet that moment often.
TEST_F(OwnerTest, SharesNoNumberWhileLocksAreRemovedAndMadeAgain) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 400;
  std::array<std::atomic<int>, 64> holders{};
  std::atomic<int> shared = 0;
  const auto come_and_go = [&] {
    for (int round = 0; round < kRounds; ++round) {
      const Owner owner(directory());
      std::atomic<int>& count = holders.at(owner.number());
      if (count.fetch_add(1) != 0) ++shared;
      count.fetch_sub(1);
    }
  };
  const Owner bystander(directory());
  holders.at(bystander.number()).fetch_add(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(come_and_go);
  for (int round = 0; round < kRounds; ++round) {
    bystander.with_dead_owners([](unsigned) { return true; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared, 0);
  EXPECT_EQ(bystander.number(), 0u);
}

}  // namespace
}  // namespace caisson::backend::native
