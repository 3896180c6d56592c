#include "cli/settings.h"

#include <cstdlib>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::cli {

namespace fs = std::filesystem;

namespace {

void add_layers(std::set<model::Layer>& layers, std::string_view list, std::string_view source) {
  for (const std::string_view piece : split(list, ',')) {
    const std::string_view name = trim(piece);
    if (name.empty()) continue;
    const std::optional<model::Layer> layer = model::layer_from_string(name);
    if (!layer) {
      std::vector<std::string> names;
      for (const model::Layer known : model::all_layers()) names.emplace_back(to_string(known));
      throw Error(ErrorCode::validation_error,
                  str(source, ": there is no isolation layer \"", printable(name),
                      "\"; the layers are ", join(names, ", ")));
    }
    layers.insert(*layer);
  }
}

// A variable that is empty says as much as one that is not set.
std::optional<std::string> value_of(const Environment& environment, const std::string& name) {
  std::optional<std::string> value = environment(name);
  if (value && value->empty()) value.reset();
  return value;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

fs::path state_directory(const std::optional<std::string>& option, const Environment& environment,
                         bool is_root, const std::string& configured) {
  if (option && option->empty()) {
    throw Error(ErrorCode::validation_error, "--state: the directory must not be empty");
  }
  if (option) return fs::absolute(*option).lexically_normal();
  if (const auto state = value_of(environment, "CAISSON_STATE")) {
    return fs::absolute(*state).lexically_normal();
  }
  if (!configured.empty()) return fs::absolute(configured).lexically_normal();
  if (is_root) return "/var/lib/caisson";
  const auto base = value_of(environment, "XDG_STATE_HOME");
  if (base && base->starts_with('/')) return fs::path(*base) / "caisson";
  const auto home = value_of(environment, "HOME");
  if (home && home->starts_with('/')) return fs::path(*home) / ".local/state/caisson";
  throw Error(ErrorCode::validation_error,
              "there is no place for state: HOME is not set; name a directory with --state");
}

std::set<model::Layer> allowed_missing(const std::vector<std::string>& options,
                                       const Environment& environment) {
  std::set<model::Layer> layers;
  if (const auto list = environment("CAISSON_ALLOW_MISSING")) {
    add_layers(layers, *list, "CAISSON_ALLOW_MISSING");
  }
  for (const std::string& list : options) add_layers(layers, list, "--allow-missing");
  return layers;
}

}  // namespace caisson::cli
