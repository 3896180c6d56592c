#include "options.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::benchmarks {

Options read_options(const std::vector<std::string>& arguments,
                     const std::vector<std::string>& measurements) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) {
        throw Error(ErrorCode::validation_error, str(argument, " needs a value: see --help"));
      }
      return arguments[++i];
    };
    if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--trace") {
      options.trace = true;
    } else if (argument == "--help") {
      options.help = true;
    } else if (argument == "--json") {
      options.json = value();
    } else if (argument == "--only") {
      const std::string& name = value();
      if (std::find(measurements.begin(), measurements.end(), name) == measurements.end()) {
        throw Error(ErrorCode::validation_error,
                    str("--only ", printable(name), ": it is one of ", join(measurements, ", ")));
      }
      options.only.insert(name);
    } else {
      throw Error(ErrorCode::validation_error,
                  str(printable(argument), " is not an option: see --help"));
    }
  }
  return options;
}

std::string usage(const std::vector<std::string>& measurements) {
  return str(
      "usage: caisson-bench [--quick] [--only NAME]... [--json FILE] [--trace]\n"
      "Measures native boxes and their peers in turns and prints one Markdown table.\n"
      "  --quick      a few rounds of everything: to see that it works, not how fast\n"
      "  --only NAME  one of ",
      join(measurements, ", "),
      "; may be given again\n"
      "  --json FILE  the same figures for machines\n"
      "  --trace      instead: where the time of create + exec + destroy goes\n");
}

}  // namespace caisson::benchmarks
