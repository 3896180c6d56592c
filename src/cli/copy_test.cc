#include "cli/copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/file.h"

namespace caisson::cli {
namespace {

// Every byte value, and more than a pipe holds.
std::string megabytes(std::size_t count) {
  std::string data(count << 20, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>((i * 31) ^ (i >> 8));
  return data;
}

class Copy : public testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }
};

TEST_F(Copy, PassesEveryByteOnInOrder) {
  const std::string sent = megabytes(3);
  auto [read_end, write_end] = make_pipe();
  std::thread writer([&, end = std::move(write_end)] { write_all(end.get(), sent, "pipe"); });
  std::string received;
  copy_output(std::move(read_end), [&](std::string_view bytes) {
    received.append(bytes);
    return true;
  });
  writer.join();
  EXPECT_TRUE(received == sent);
}

TEST_F(Copy, ClosesThePipeWhenNoMoreIsWanted) {
  auto [read_end, write_end] = make_pipe();
  write_all(write_end.get(), "x", "pipe");
  copy_output(std::move(read_end), [](std::string_view) { return false; });
  EXPECT_EQ(::write(write_end.get(), "y", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(Copy, TakesAReaderThatHasGoneForTheEnd) {
  auto [read_end, write_end] = make_pipe();
  read_end.reset();
  int error = 0;
  const FdSink sink{write_end.get(), error};
  EXPECT_FALSE(sink("x"));
  EXPECT_EQ(error, 0);
}

TEST_F(Copy, KeepsTheReasonWhyNothingCanBeWritten) {
  const UniqueFd full = open_file("/dev/full", O_WRONLY);
  int error = 0;
  const FdSink sink{full.get(), error};
  EXPECT_FALSE(sink("x"));
  EXPECT_EQ(error, ENOSPC);
}

TEST_F(Copy, WaitsForAReaderOfANonBlockingPipe) {
  const std::string sent = megabytes(1);
  auto [read_end, write_end] = make_pipe();
  set_nonblocking(write_end.get());
  std::string received;
  std::thread reader([&, end = read_end.get()] { received = read_all(end, "pipe"); });
  int error = 0;
  EXPECT_TRUE((FdSink{write_end.get(), error})(sent));
  write_end.reset();
  reader.join();
  EXPECT_TRUE(received == sent);
}

TEST_F(Copy, EndsTheInputWithItsSource) {
  auto [source_read, source_write] = make_pipe();
  auto [read_end, write_end] = make_pipe();
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  write_all(source_write.get(), "hello", "pipe");
  source_write.reset();
  copy_input(source_read.get(), std::move(write_end), stop.get());
  EXPECT_EQ(read_all(read_end.get(), "pipe"), "hello");
}

TEST_F(Copy, StopsWaitingForInputWhenTold) {
  auto [source_read, source_write] = make_pipe();
  auto [read_end, write_end] = make_pipe();
  const UniqueFd stop(::eventfd(1, EFD_CLOEXEC));
  copy_input(source_read.get(), std::move(write_end), stop.get());
  EXPECT_EQ(read_all(read_end.get(), "pipe"), "");
}

TEST_F(Copy, StopsWhenNobodyReadsTheInput) {
  auto [read_end, write_end] = make_pipe();
  read_end.reset();
  const UniqueFd zero = open_file("/dev/zero", O_RDONLY);
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  copy_input(zero.get(), std::move(write_end), stop.get());
}

TEST(Capture, KeepsTheBeginningAndCountsTheRest) {
  Capture capture{.limit = 4};
  capture.add("ab");
  capture.add("cde");
  capture.add("f");
  EXPECT_EQ(capture.data, "abcd");
  EXPECT_EQ(capture.discarded, 2u);
}

}  // namespace
}  // namespace caisson::cli
