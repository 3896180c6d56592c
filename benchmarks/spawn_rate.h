#pragma once
#include <chrono>
#include <cstddef>

namespace caisson::benchmarks {

// How many of the trivial commands `count` threads start and wait for in a second, one at a time in
// each.
double spawns_per_second(std::size_t count, std::chrono::duration<double> slice);

}  // namespace caisson::benchmarks
