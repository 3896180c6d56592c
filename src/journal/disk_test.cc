#include "journal/disk.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <stdexcept>
#include <thread>

#include "async/loop_for_test.h"

namespace caisson::journal {
namespace {

class DiskTest : public testing::Test {
 protected:
  // Where work that takes so long is done.
  bool runs_here(std::chrono::milliseconds takes, bool much = false) {
    std::thread::id where;
    boost::asio::io_context io;
    run_loop(io, disk_.run(much, [&] {
      now_ += takes;
      where = std::this_thread::get_id();
    }));
    return where == std::this_thread::get_id();
  }

  static constexpr std::chrono::milliseconds kQuick{1};
  Deadline now_ = Clock::now();
  Disk disk_{[this] { return now_; }};
};

TEST_F(DiskTest, IsWrittenByTheLoopWhileItIsQuick) {
  EXPECT_TRUE(runs_here(kQuick));
  EXPECT_TRUE(runs_here(kQuick));
  EXPECT_FALSE(runs_here(kQuick, true));
  EXPECT_TRUE(runs_here(kQuick));
}

TEST_F(DiskTest, LetsTheLoopWaitOnce) {
  EXPECT_TRUE(runs_here(Disk::kSlow));
  EXPECT_FALSE(runs_here(kQuick));
  now_ += Disk::kDistrust - std::chrono::seconds(1);
  EXPECT_FALSE(runs_here(Disk::kSlow)) << "which counts anew";
  now_ += Disk::kDistrust - std::chrono::seconds(1);
  EXPECT_FALSE(runs_here(kQuick));
  now_ += std::chrono::seconds(1);
  EXPECT_TRUE(runs_here(kQuick));
}

TEST_F(DiskTest, IsAsSlowWhenItFails) {
  boost::asio::io_context io;
  EXPECT_THROW(run_loop(io, disk_.run(false,
                                      [&] {
                                        now_ += Disk::kSlow;
                                        throw std::runtime_error("no space");
                                      })),
               std::runtime_error);
  EXPECT_TRUE(disk_.slow());
}

}  // namespace
}  // namespace caisson::journal
