#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <utility>

#include "async/task.h"

namespace caisson {

// For co_spawn: a failure comes out of whoever runs the loop.
inline void rethrow(const std::exception_ptr& failure) {
  if (failure) std::rethrow_exception(failure);
}

// Runs the loop until nothing is left to do, and throws what the task throws.
inline void run_loop(boost::asio::io_context& io, Task<void> task) {
  std::exception_ptr failure;
  boost::asio::co_spawn(io, std::move(task),
                        [&](const std::exception_ptr& thrown) { failure = thrown; });
  io.run();
  rethrow(failure);
}

}  // namespace caisson
