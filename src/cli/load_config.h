#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"

namespace caisson::cli {

// The configuration in force, and where it comes from.
struct LoadedConfig {
  model::Config config;                       // `ignored_fields` names what nothing reads
  std::optional<std::filesystem::path> file;  // none: there is no file, the defaults apply
  std::vector<std::string> variables;  // names of those that changed it; values may be secret
};

// The environment as apply_environment() of the model takes it: "NAME=value".
std::vector<std::string> environment_entries();

// --config, else /etc/caisson/caisson.yaml for root and $XDG_CONFIG_HOME/caisson/caisson.yaml or
// ~/.config/caisson/caisson.yaml for others when it is there.
std::optional<std::filesystem::path> find_config_file(const std::optional<std::string>& option,
                                                      const std::vector<std::string>& environment,
                                                      bool is_root);

// Reads the file, if any, and lays the environment over it. A fault is told with its place:
// "/etc/caisson/caisson.yaml:3:7: ...", or with the names of the variables it comes from.
LoadedConfig load_config(std::optional<std::filesystem::path> file,
                         const std::vector<std::string>& environment);

// The whole tree with every secret in it replaced by "***".
boost::json::object masked_json(const model::Config& config);

}  // namespace caisson::cli
