#include "cli/load_config.h"

#include <unistd.h>

#include <boost/json/parse.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "model/yaml.h"

namespace caisson::cli {

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr std::size_t kMaxConfigBytes = 1u << 20;
constexpr std::string_view kLangbotConfig = "LANGBOT_BOX_CONFIG";
constexpr std::string_view kSystemFile = "/etc/caisson/caisson.yaml";

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::validation_error, sentence);
}

// An absolute path in a variable; what is relative or empty says nothing.
std::optional<fs::path> directory_in(const std::vector<std::string>& environment,
                                     std::string_view name) {
  const std::string prefix = str(name, "=/");
  for (const std::string& entry : environment) {
    if (entry.starts_with(prefix)) return fs::path(entry.substr(name.size() + 1));
  }
  return std::nullopt;
}

std::optional<fs::path> default_file(const std::vector<std::string>& environment, bool is_root) {
  if (is_root) return fs::path(kSystemFile);
  if (const auto base = directory_in(environment, "XDG_CONFIG_HOME")) {
    return *base / "caisson/caisson.yaml";
  }
  if (const auto home = directory_in(environment, "HOME")) {
    return *home / ".config/caisson/caisson.yaml";
  }
  return std::nullopt;
}

// LangBot gives its `box` tree in a variable. One that is no JSON object says nothing, as with its
// own runtime.
bool lay_langbot_over(json::value& tree, const std::vector<std::string>& environment) {
  const std::string prefix = str(kLangbotConfig, "=");
  for (const std::string& entry : environment) {
    if (!entry.starts_with(prefix)) continue;
    json::error_code error;
    const json::value given = json::parse(entry.substr(prefix.size()), error);
    if (error || !given.is_object()) {
      log::warning("a variable is no JSON object and was ignored", "variable", kLangbotConfig);
      return false;
    }
    if (!tree.is_object()) tree = json::object();
    json::value& box = tree.as_object()["box"];
    if (!box.is_object()) box = json::object();
    for (const auto& section : given.get_object()) box.as_object()[section.key()] = section.value();
    return true;
  }
  return false;
}

std::string refusal_of(const json::value& tree) {
  try {
    model::read_config(tree);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Names that stand for something secret, in our trees and in what may be added to them.
bool is_secret(std::string_view name) {
  return name == "api_key" || name.ends_with("token") || name.ends_with("secret") ||
         name.ends_with("password");
}

void mask(json::object& tree) {
  for (auto& [name, value] : tree) {
    if (json::object* nested = value.if_object()) {
      mask(*nested);
    } else if (is_secret(name) && value.is_string() && !value.get_string().empty()) {
      value = "***";
    }
  }
}

}  // namespace

std::vector<std::string> environment_entries() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    entries.emplace_back(*entry);
  }
  return entries;
}

std::optional<fs::path> find_config_file(const std::optional<std::string>& option,
                                         const std::vector<std::string>& environment,
                                         bool is_root) {
  if (option && option->empty()) refuse("--config: the file must not be empty");
  if (option) return fs::path(*option);
  std::optional<fs::path> file = default_file(environment, is_root);
  // A file that is there and cannot be read is told when it is read.
  if (file && ::access(file->c_str(), F_OK) != 0) file.reset();
  return file;
}

LoadedConfig load_config(std::optional<fs::path> file,
                         const std::vector<std::string>& environment) {
  json::value tree;
  if (file) {
    const std::string text = read_file(*file, kMaxConfigBytes);
    tree = model::parse_yaml(text, file->native());
    if (!tree.is_null() && !tree.is_object()) {
      refuse(str(file->native(), ": must hold keys and values, such as \"box:\""));
    }
  }
  const json::value plain = model::with_defaults(tree);
  const bool langbot = lay_langbot_over(tree, environment);
  model::Overridden overridden =
      model::apply_environment(model::with_defaults(std::move(tree)), environment);
  LoadedConfig loaded{.file = std::move(file), .variables = std::move(overridden.variables)};
  if (langbot) loaded.variables.emplace_back(kLangbotConfig);
  const std::string fault = refusal_of(overridden.tree);
  if (!fault.empty()) {
    const bool is_of_file = loaded.variables.empty() || refusal_of(plain) == fault;
    if (is_of_file) refuse(str(loaded.file ? loaded.file->native() : "configuration", ": ", fault));
    refuse(str("environment (", join(loaded.variables, ", "), "): ", fault));
  }
  loaded.config = model::read_config(overridden.tree);
  return loaded;
}

json::object masked_json(const model::Config& config) {
  json::object tree = model::to_json(config);
  mask(tree);
  return tree;
}

}  // namespace caisson::cli
