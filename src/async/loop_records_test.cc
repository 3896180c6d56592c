#include "async/loop_records.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <iterator>

namespace caisson {
namespace {

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(LoopRecords, TakeNoMoreMemoryWhenTheyAreUsed) {
  boost::asio::io_context io(1);
  make_loop_records(io.get_executor(), 1);  // the loop has made its own descriptors then
  const std::ptrdiff_t before = open_descriptors();
  make_loop_records(io.get_executor(), 100);
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
}  // namespace caisson
