#include "samples.h"

#include <algorithm>
#include <cmath>

namespace caisson::benchmarks {

namespace {

// The value that the share `fraction` of all values does not exceed; between two values, the
// straight line.
double quantile_of(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - std::floor(place));
}

}  // namespace

Summary Samples::summary() const {
  if (values_.empty()) return {};
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  return {.n = sorted.size(),
          .median = quantile_of(sorted, 0.5),
          .min = sorted.front(),
          .p90 = quantile_of(sorted, 0.9)};
}

double Samples::quantile(double fraction) const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  return quantile_of(sorted, fraction);
}

}  // namespace caisson::benchmarks
