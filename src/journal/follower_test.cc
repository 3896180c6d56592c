#include "journal/follower.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <vector>

#include "async/loop_for_test.h"
#include "base/temporary_directory.h"
#include "journal/stream_for_test.h"

namespace caisson::journal {
namespace {

namespace asio = boost::asio;

class FollowerTest : public testing::Test {
 protected:
  FollowerTest() { std::tie(read_, write_) = make_pipe(); }

  void put(std::string_view text) {
    write_all(write_.get(), text, "pipe");
    drain_all(*journal_, read_.get());
    feed_.announce();
  }
  void turn() {
    io_.restart();
    io_.poll();
  }

  asio::io_context io_;
  TemporaryDirectory directory_;
  std::unique_ptr<Journal> journal_ =
      Journal::create(directory_.path(), "out", {.capacity = 2 * kBlockSize});
  Feed feed_{io_.get_executor(), *journal_};
  UniqueFd read_;
  UniqueFd write_;
};

Task<void> collect(Follower& follower, std::vector<Chunk>& chunks, std::size_t at_most) {
  do {
    chunks.push_back(co_await follower.next(at_most));
  } while (chunks.back().kind != Chunk::Kind::ended);
}

TEST_F(FollowerTest, WakesEveryReaderAtItsOwnOffset) {
  put("abc");
  std::vector<Chunk> first;
  std::vector<Chunk> second;
  Follower from_begin(feed_, 0);
  Follower from_end(feed_, 3);
  asio::co_spawn(io_, collect(from_begin, first, 100), rethrow);
  asio::co_spawn(io_, collect(from_end, second, 2), rethrow);
  turn();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].bytes, "abc");
  EXPECT_TRUE(second.empty());
  put("defg");
  turn();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].bytes, "defg");
  EXPECT_EQ(first[1].offset, 3u);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].bytes, "de");
  EXPECT_EQ(second[1].bytes, "fg");
  EXPECT_EQ(second[1].next, 7u);
  journal_->mark_closed();
  feed_.announce();
  turn();
  EXPECT_EQ(first.back().kind, Chunk::Kind::ended);
  EXPECT_EQ(second.back().kind, Chunk::Kind::ended);
}

TEST_F(FollowerTest, IsToldWhatItMissedAndGoesOnBehindIt) {
  Follower follower(feed_, 5);
  for (std::uint64_t at = 0; at < 20 * kBlockSize; at += 50'000) put(stream_bytes(at, 50'000));
  journal_->mark_closed();
  std::vector<Chunk> chunks;
  run_loop(io_, collect(follower, chunks, 1000));
  ASSERT_GT(chunks.size(), 2u);
  EXPECT_EQ(chunks[0].kind, Chunk::Kind::truncated);
  EXPECT_EQ(chunks[0].offset, 5u);
  EXPECT_EQ(chunks[0].next, journal_->begin());
  std::uint64_t offset = chunks[0].next;
  for (std::size_t i = 1; i + 1 < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i].offset, offset);
    EXPECT_TRUE(is_stream(chunks[i].bytes, offset));
    offset = chunks[i].next;
  }
  EXPECT_EQ(offset, journal_->end());
}

TEST_F(FollowerTest, RefusesAnOffsetBehindTheEnd) {
  Follower follower(feed_, 1);
  std::vector<Chunk> chunks;
  EXPECT_THROW(run_loop(io_, collect(follower, chunks, 10)), Error);
}

TEST_F(FollowerTest, EndsItsWaitWithTheFeed) {
  auto feed = std::make_unique<Feed>(io_.get_executor(), *journal_);
  Follower follower(*feed, 0);
  std::vector<Chunk> chunks;
  std::exception_ptr failure;
  asio::co_spawn(io_, collect(follower, chunks, 10),
                 [&](const std::exception_ptr& why) { failure = why; });
  turn();
  EXPECT_EQ(failure, nullptr);
  feed.reset();
  turn();
  EXPECT_NE(failure, nullptr);
}

}  // namespace
}  // namespace caisson::journal
