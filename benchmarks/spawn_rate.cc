#include "spawn_rate.h"

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "host_command.h"

namespace caisson::benchmarks {

double spawns_per_second(std::size_t count, std::chrono::duration<double> slice) {
  const Clock::time_point start = Clock::now();
  const Deadline end = start + std::chrono::duration_cast<Clock::duration>(slice);
  std::atomic<unsigned> done = 0;
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < count; ++i) {
    workers.emplace_back([&, i] {
      try {
        for (; Clock::now() < end; ++done) run_checked(trivial_command());
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return done / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace caisson::benchmarks
