#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <utility>

#include "async/task.h"

namespace caisson::journal {

// Runs the loop until nothing is left to do, and throws what the task throws.
inline void run_loop(boost::asio::io_context& io, Task<void> task) {
  std::exception_ptr failure;
  boost::asio::co_spawn(io, std::move(task),
                        [&](const std::exception_ptr& thrown) { failure = thrown; });
  io.run();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace caisson::journal
