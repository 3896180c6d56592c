#pragma once
#include <cstdint>
#include <ctime>

namespace caisson {

// Microseconds since the host started, its sleep included: the same for every process of the host,
// and nobody sets it.
inline std::uint64_t uptime_us() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

}  // namespace caisson
