#pragma once
#include <chrono>

namespace caisson {

// Deadlines and ages are measured on the monotonic clock; wall time is only ever shown.
using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

}  // namespace caisson
