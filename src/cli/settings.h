#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/isolation.h"

namespace caisson::cli {

// The caller's environment; nullopt for a name that is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// --state, else CAISSON_STATE, else what the configuration says (caisson.state_dir), else the
// user's place for state. Always absolute.
std::filesystem::path state_directory(const std::optional<std::string>& option,
                                      const Environment& environment, bool is_root,
                                      const std::string& configured = "");

// The layers of --allow-missing and of CAISSON_ALLOW_MISSING, each a list with commas. Throws
// validation_error, with all the names there are, for an unknown one.
std::set<model::Layer> allowed_missing(const std::vector<std::string>& options,
                                       const Environment& environment);

}  // namespace caisson::cli
