#pragma once
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace caisson::benchmarks {

// What is said of a series of measurements. The median is what is compared; the minimum shows the
// floor and the 90th percentile how much the machine was disturbed.
struct Summary {
  std::size_t n = 0;
  double median = 0;
  double min = 0;
  double p90 = 0;
};

class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  bool empty() const { return values_.empty(); }
  Summary summary() const;  // zeros when empty
  double quantile(double fraction) const;

 private:
  std::vector<double> values_;
};

inline double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// How long `work()` takes, in milliseconds.
template <typename Work>
double milliseconds_of(Work&& work) {
  const Clock::time_point start = Clock::now();
  std::forward<Work>(work)();
  return milliseconds_since(start);
}

}  // namespace caisson::benchmarks
