// Measures what boxes cost on this host, in turns with what does a comparable thing, and prints one
// Markdown table. It judges nothing: a goal that is missed is shown, not an error.
#include <boost/json/serialize.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "measurements.h"
#include "options.h"
#include "report.h"
#include "table.h"

namespace caisson::benchmarks {

namespace {

struct Measurement {
  std::string name;
  void (*run)(const Options& options, Report& report);
};

// Memory comes first: what other measurements leave behind is freed by the kernel in its own time.
const std::vector<Measurement>& measurements() {
  static const std::vector<Measurement> all{
      {"memory", measure_memory},       {"exec", measure_exec},
      {"lifecycle", measure_lifecycle}, {"throughput", measure_throughput},
      {"mounts", measure_mounts},       {"rest", measure_rest},
      {"processes", measure_processes}, {"rpc", measure_rpc}};
  return all;
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const Measurement& measurement : measurements()) result.push_back(measurement.name);
  return result;
}

// False when something could not be measured at all; the rest is still shown.
bool run(const Measurement& measurement, const Options& options, Report& report) {
  try {
    measurement.run(options, report);
    return true;
  } catch (const std::exception& error) {
    report.note(str(measurement.name, " could not be measured: ", error.what()));
    return false;
  }
}

int run_all(const Options& options) {
  Report report = begin_report();
  bool complete = true;
  if (options.trace) {
    complete = run({"trace", trace_lifecycle}, options, report);
  } else {
    for (const Measurement& measurement : measurements()) {
      if (options.wants(measurement.name)) {
        complete = run(measurement, options, report) && complete;
      }
    }
  }
  end_report(report);
  std::fputs(to_markdown(report).c_str(), stdout);
  if (options.json) {
    replace_file(*options.json, boost::json::serialize(to_json(report)) + "\n");
  }
  return complete ? 0 : 1;
}

}  // namespace

}  // namespace caisson::benchmarks

int main(int argc, char** argv) {
  using namespace caisson::benchmarks;
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const Options options = read_options(std::vector<std::string>(argv + 1, argv + argc), names());
    if (options.help) {
      std::fputs(usage(names()).c_str(), stdout);
      return 0;
    }
    return run_all(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caisson-bench: %s\n", error.what());
    return 2;
  }
}
