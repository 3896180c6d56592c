#include "cli/option.h"

#include "base/text.h"
#include "model/profile.h"

namespace caisson::cli {

namespace {

std::string profile_names() {
  std::vector<std::string> names;
  for (const model::Profile& profile : model::builtin_profiles()) names.push_back(profile.name);
  return join(names, "|");
}

}  // namespace

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

void add_box_options(CLI::App& app, ExecOptions& options) {
  add_text(app, "--workspace", options.workspace, "HOST[:ro|rw]",
           "Show this host directory as /workspace");
  add_list(app, "--mount", options.mounts, "HOST:BOX[:ro|rw]",
           "Show a host path in the box, writable unless :ro (repeatable)");
  add_text(app, "--network", options.network, "on|off",
           "Own network behind NAT, or none (default)");
  add_text(app, "--cpus", options.cpus, "N", "CPU limit, fractions allowed (default 1)");
  add_text(app, "--pids", options.pids, "N", "Most processes and threads at a time (default 128)");
  add_text(app, "--image", options.image, "IMAGE",
           "An imported root file system (default: the host's)");
  app.add_flag("--writable", options.writable,
               "Let the command change the root file system; the changes go with the box");
  add_text(app, "--profile", options.profile, profile_names(),
           "Named defaults and locks for all of these");
}

void add_allow_missing(CLI::App& app, std::vector<std::string>& target) {
  add_list(app, "--allow-missing", target, "LAYER[,LAYER]",
           "Accept boxes without these isolation layers (also: $CAISSON_ALLOW_MISSING); "
           "`caisson doctor` names the layers");
}

}  // namespace caisson::cli
