#pragma once
#include <sys/types.h>

#include <chrono>

namespace caisson::backend::native {

// The processor time of everything that a process has started, directly or not: of those that run
// and of those that have ended and were waited for. Its own is left out. For hosts on which no
// control group counts it; a box's processes are all below its guest, to whom orphans come. To a
// hundredth of a second; what cannot be seen counts nothing.
std::chrono::microseconds time_below(pid_t process);

}  // namespace caisson::backend::native
