#include "daemon/room.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <filesystem>
#include <iterator>
#include <vector>

#include "base/file.h"

namespace caisson::daemon {
namespace {

TEST(Room, TheSoftLimitOfDescriptorsBecomesTheHardOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(raise_descriptor_limit(), before.rlim_max);
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Room, FiveThousandSessionsFitIntoTwentyThousandDescriptors) {
  EXPECT_GE(sessions_that_fit(20'000, 1024), 5000u);
  EXPECT_LT(sessions_that_fit(1024, 0), 300u);
  EXPECT_EQ(sessions_that_fit(1024, 1024), 0u);
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(Room, RecordsThatWereMadeAtOnceTakeNoMoreMemoryWhenTheyAreUsed) {
  boost::asio::io_context io(1);
  make_records(io.get_executor(), 1);  // the loop has made its own descriptors then
  const std::ptrdiff_t before = open_descriptors();
  make_records(io.get_executor(), 100);
  EXPECT_EQ(open_descriptors(), before);

  const UniqueFd pipe_end = make_pipe().first;
  std::vector<int> fds;
  std::vector<boost::asio::posix::stream_descriptor> watched;
  watched.reserve(100);
  for (int i = 0; i < 100; ++i) fds.push_back(duplicate(pipe_end.get(), "a pipe").release());
  const std::size_t held = ::mallinfo2().uordblks;
  for (const int fd : fds) watched.emplace_back(io, fd);
  EXPECT_EQ(::mallinfo2().uordblks, held);
}

}  // namespace
}  // namespace caisson::daemon
