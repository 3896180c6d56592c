#pragma once
#include <boost/asio/io_context.hpp>

#include "async/loop_for_test.h"

namespace caisson::faults {

// Runs the coroutine that `body` makes of an executor, on a loop of its own, and throws what it
// throws.
template <typename Body>
void run_body(Body body) {
  boost::asio::io_context io;
  run_loop(io, body(io.get_executor()));
}

}  // namespace caisson::faults
