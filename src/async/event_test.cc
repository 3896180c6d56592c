#include "async/event.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <vector>

namespace caisson {
namespace {

namespace asio = boost::asio;

// How a waiter ended: empty while it waits, then null or an exception.
using Outcome = std::optional<std::exception_ptr>;

auto record(Outcome& outcome) {
  return [&outcome](std::exception_ptr failure) { outcome = failure; };
}

bool was_aborted(const Outcome& outcome) {
  if (!outcome || !*outcome) return false;
  try {
    std::rethrow_exception(*outcome);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  }
}

TEST(Event, WakesEveryWaiter) {
  asio::io_context io;
  Event event(io.get_executor());
  std::vector<Outcome> outcomes(3);
  for (Outcome& outcome : outcomes) asio::co_spawn(io, event.wait(), record(outcome));
  io.poll();
  for (const Outcome& outcome : outcomes) EXPECT_FALSE(outcome.has_value());
  event.set();
  event.set();
  io.restart();
  io.run();
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(*outcome, nullptr);
  }
}

TEST(Event, DoesNotDelayAWaiterThatComesLate) {
  asio::io_context io;
  Event event(io.get_executor());
  event.set();
  EXPECT_TRUE(event.is_set());
  Outcome outcome;
  asio::co_spawn(io, event.wait(), record(outcome));
  io.run();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(*outcome, nullptr);
}

TEST(Event, EndsAWaiterThatIsCancelled) {
  asio::io_context io;
  Event event(io.get_executor());
  asio::cancellation_signal cancel;
  Outcome outcome;
  asio::co_spawn(io, event.wait(), asio::bind_cancellation_slot(cancel.slot(), record(outcome)));
  asio::post(io, [&] { cancel.emit(asio::cancellation_type::terminal); });
  io.run();
  EXPECT_TRUE(was_aborted(outcome));
  EXPECT_FALSE(event.is_set());
}

TEST(Event, EndsItsWaitersWhenItIsDestroyed) {
  asio::io_context io;
  std::optional<Event> event(std::in_place, io.get_executor());
  Outcome outcome;
  asio::co_spawn(io, event->wait(), record(outcome));
  asio::post(io, [&] { event.reset(); });
  io.run();
  EXPECT_TRUE(was_aborted(outcome));
}

TEST(Event, StopsWaitingAtTheDeadline) {
  asio::io_context io;
  Event event(io.get_executor());
  std::optional<bool> happened;
  auto done = [&](std::exception_ptr, bool value) { happened = value; };
  asio::co_spawn(io, event.wait_until(Clock::now() + std::chrono::milliseconds(1)), done);
  io.run();
  EXPECT_EQ(happened, false);
}

TEST(Event, WakesWaitersWithDifferentDeadlines) {
  asio::io_context io;
  Event event(io.get_executor());
  std::vector<bool> happened;
  auto done = [&](std::exception_ptr, bool value) { happened.push_back(value); };
  asio::co_spawn(io, event.wait_until(Clock::now()), done);
  asio::co_spawn(io, event.wait_until(Clock::now() + std::chrono::hours(1)), done);
  while (happened.empty()) io.run_one();
  event.set();
  io.run();
  EXPECT_EQ(happened, (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace caisson
