#pragma once
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "async/task.h"

namespace caisson {

// Runs `work()` on the pool and comes back to the event loop with its result or its exception. The
// work gets its data by value: it must not touch what the loop's thread owns. Who cancels it waits
// for the work: a wish that reached a thread of the pool before it begins would end the program.
template <typename Work>
auto run_blocking(boost::asio::thread_pool& pool, Work work) -> Task<decltype(work())> {
  auto body = [](Work moved) -> Task<decltype(moved())> { co_return moved(); };
  co_return co_await boost::asio::co_spawn(
      pool, body(std::move(work)),
      boost::asio::bind_cancellation_slot(boost::asio::cancellation_slot(),
                                          boost::asio::use_awaitable));
}

}  // namespace caisson
