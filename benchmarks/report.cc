#include "report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

namespace caisson::benchmarks {

std::optional<double> Figure::ratio() const {
  if (!peer || peer->summary.median <= 0) return std::nullopt;
  return ours.median / peer->summary.median;
}

std::optional<bool> Figure::met() const {
  if (!goal) return std::nullopt;
  const std::optional<double> value = goal->of == Goal::Of::ratio ? ratio() : ours.median;
  if (!value) return std::nullopt;
  return goal->bound == Goal::Bound::at_most ? *value <= goal->limit : *value >= goal->limit;
}

void Report::note(std::string text) {
  if (std::find(notes.begin(), notes.end(), text) == notes.end()) notes.push_back(std::move(text));
}

Report begin_report() {
  Report report;
  utsname name{};
  if (::uname(&name) == 0) report.kernel = name.release;
  report.cpus = std::thread::hardware_concurrency();
  ::getloadavg(report.load_before.data(), 3);
  return report;
}

void end_report(Report& report) {
  ::getloadavg(report.load_after.data(), 3);
}

}  // namespace caisson::benchmarks
