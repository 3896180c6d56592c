#pragma once
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/task.h"
#include "base/clock.h"

namespace caisson {

// Throws operation_aborted when the coroutine is cancelled.
inline Task<void> sleep_for(Clock::duration duration) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, duration);
  co_await timer.async_wait(boost::asio::use_awaitable);
}

}  // namespace caisson
