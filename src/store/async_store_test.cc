#include "store/async_store.h"

#include <gmock/gmock.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>

#include "base/str.h"
#include "store/scene_for_test.h"

namespace caisson::store {
namespace {

namespace asio = boost::asio;
using testing::ElementsAre;

void run(Task<void> task) {
  asio::io_context io;
  std::exception_ptr failure;
  asio::co_spawn(io, std::move(task), [&](const std::exception_ptr& error) { failure = error; });
  io.run();
  if (failure) std::rethrow_exception(failure);
}

TEST(AsyncStore, DoesWhatAStoreDoesOnAThreadOfItsOwn) {
  const TemporaryDirectory directory;
  AsyncStore store;
  const auto steps = [&]() -> Task<void> {
    const Opened opened = co_await store.open(directory / "caisson.db");
    EXPECT_FALSE(opened.recovered);
    co_await store.put_session(sample("a"));
    co_await store.put_session(sample("b"));
    EXPECT_TRUE(co_await store.touch_session("b", sample("b").last_used_at));
    EXPECT_TRUE(co_await store.remove_session("a"));
    const std::vector<SessionRecord> sessions = co_await store.sessions();
    EXPECT_THAT(sessions, ElementsAre(sample("b")));
    co_await store.set_meta("k", "v");
    const std::optional<std::string> value = co_await store.find_meta("k");
    EXPECT_EQ(value, "v");
  };
  run(steps());
}

TEST(AsyncStore, HandsErrorsToTheCallerAndGoesOn) {
  const TemporaryDirectory directory;
  AsyncStore store;
  const auto early = [&]() -> Task<void> { co_await store.sessions(); };
  EXPECT_THROW(run(early()), Error);
  const auto nowhere = [&]() -> Task<void> { co_await store.open("/nonexistent/caisson.db"); };
  EXPECT_THROW(run(nowhere()), Error);
  const auto refused = [&]() -> Task<void> {
    co_await store.open(directory / "caisson.db");
    co_await store.put_session(sample("\xff"));
  };
  EXPECT_THROW(run(refused()), Error);
  const auto fine = [&]() -> Task<void> { co_await store.put_session(sample("a")); };
  run(fine());
}

TEST(AsyncStore, KeepsTheOrderOfCallsThatWaitTogether) {
  const TemporaryDirectory directory;
  AsyncStore store;
  asio::io_context io;
  int done = 0;
  const auto count = [&](const std::exception_ptr& error) {
    EXPECT_FALSE(error);
    ++done;
  };
  const auto opening = [&]() -> Task<void> { co_await store.open(directory / "caisson.db"); };
  asio::co_spawn(io, opening(), count);
  for (int i = 0; i < 50; ++i) {
    asio::co_spawn(io, store.put_session(sample(str("s", i))), count);
  }
  io.run();
  EXPECT_EQ(done, 51);
  const auto look = [&]() -> Task<void> {
    const std::vector<SessionRecord> sessions = co_await store.sessions();
    EXPECT_EQ(sessions.size(), 50u);
    EXPECT_EQ(sessions.front().session_id, "s0");
    EXPECT_EQ(sessions.back().session_id, "s49");
  };
  run(look());
}

}  // namespace
}  // namespace caisson::store
