#include "cli/option.h"

namespace caisson::cli {

CLI::Option* add_text(CLI::App& app, const std::string& names, std::optional<std::string>& target,
                      const std::string& value_name, const std::string& description) {
  const auto set = [&target](const std::string& value) { target = value; };
  return app.add_option_function<std::string>(names, set, description)
      ->type_name(value_name)
      ->take_last();
}

CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<std::string>& target,
                      const std::string& value_name, const std::string& description) {
  // One value for each time the option is named: what follows it may be an option again.
  return app.add_option(names, target, description)->type_name(value_name)->allow_extra_args(false);
}

void add_json(CLI::App& app, bool& target) {
  app.add_flag("--json", target, "Print one JSON object, errors included, and nothing else");
}

void add_state(CLI::App& app, std::optional<std::string>& target) {
  add_text(app, "--state", target, "DIR",
           "Where images are kept (default: $CAISSON_STATE, else /var/lib/caisson for root and "
           "~/.local/state/caisson for others)");
}

void add_allow_missing(CLI::App& app, std::vector<std::string>& target) {
  add_list(app, "--allow-missing", target, "LAYER[,LAYER]",
           "Accept boxes without these isolation layers (also: $CAISSON_ALLOW_MISSING); "
           "`caisson doctor` names the layers");
}

}  // namespace caisson::cli
