#include <CLI/App.hpp>
#include <memory>

#include "backend/guest_channel.h"  // the version of the guest protocol
#include "base/str.h"
#include "cli/command.h"
#include "cli/option.h"
#include "cli/report.h"

namespace caisson::cli {

namespace {

#if defined(__clang__)
constexpr std::string_view kCompiler = "clang " __clang_version__;
#else
constexpr std::string_view kCompiler = "g++ " __VERSION__;
#endif

// "clang 16.0.6 (27+b1)" without what the distribution adds.
std::string compiler() {
  return std::string(kCompiler.substr(0, kCompiler.find(" (")));
}

int run_version(bool json) {
  if (!json) {
    print(str(version_line(), "\n"));
    return 0;
  }
  print({{"version", version_number()},
         {"guest_protocol", wire::kGuestProtocolVersion},
         {"compiler", compiler()}});
  return 0;
}

}  // namespace

std::string version_number() {
  return CAISSON_VERSION;
}

std::string version_line() {
  return str("caisson ", version_number(), " (guest protocol ", wire::kGuestProtocolVersion, ", ",
             compiler(), ")");
}

void add_version(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("version", "Print the version");
  const auto json = std::make_shared<bool>(false);
  add_json(app, *json);
  app.callback([json, &invocation] { invocation.work = [json] { return run_version(*json); }; });
}

}  // namespace caisson::cli
