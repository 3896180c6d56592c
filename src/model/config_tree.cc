// The configuration as a tree: defaults filled in, environment variables laid over it.
#include <boost/json/array.hpp>
#include <cmath>

#include "base/str.h"
#include "base/text.h"
#include "model/config.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace {
namespace json = boost::json;

void fill_in(json::object& tree, const json::object& defaults) {
  for (const auto& [name, value] : defaults) {
    json::value* existing = tree.if_contains(name);
    if (existing == nullptr) {
      tree[name] = value;
    } else if (existing->is_object() && value.is_object()) {
      fill_in(existing->get_object(), value.get_object());
    }
  }
}

// The text in the type of what it replaces; as it is when it does not convert, for the reader to
// judge.
json::value convert(std::string_view text, const json::value& existing) {
  if (existing.is_bool()) {
    const std::string word = to_lower(text);
    return word == "true" || word == "1" || word == "yes" || word == "on";
  }
  if (existing.is_int64() || existing.is_uint64()) {
    const std::optional<std::int64_t> integer = to_integer(json::value(text));
    if (integer && text.find('.') == std::string_view::npos) return *integer;
  } else if (existing.is_double()) {
    const std::optional<double> number = to_number(json::value(text));
    if (number && std::isfinite(*number)) return *number;
  }
  return json::value(text);
}

json::value convert_list(std::string_view text, const json::array& existing) {
  const json::value sample = existing.empty() ? json::value("") : existing.front();
  json::array list;
  for (const std::string_view piece : split(text, ',')) {
    if (const std::string_view item = trim(piece); !item.empty()) {
      list.push_back(convert(item, sample));
    }
  }
  return list;
}

// "BOX__LOCAL__HOST_ROOT" -> box, local, host_root; nothing when it is not a name of that form.
std::vector<std::string> path_of_variable(std::string_view name) {
  const std::string lower = to_lower(name);
  for (const char c : name) {
    if (c >= 'a' && c <= 'z') return {};
  }
  if (lower == name) return {};  // not one letter
  std::vector<std::string> path;
  std::string_view rest = lower;
  for (;;) {
    const std::size_t end = rest.find("__");
    if (end == 0 || rest.empty()) return {};
    path.emplace_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 2);
  }
  return path.size() > 1 ? path : std::vector<std::string>();
}

// False when the tree has something there that a text cannot replace.
bool override_field(json::object& root, const std::vector<std::string>& path,
                    std::string_view text) {
  json::object* parent = &root;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    json::value& child = (*parent)[path[i]];
    if (child.is_null()) child.emplace_object();  // absent, or an empty section of the file
    parent = child.if_object();
    if (parent == nullptr) return false;
  }
  json::value& field = (*parent)[path.back()];
  if (field.is_object()) return false;
  field = field.is_array() ? convert_list(text, field.get_array()) : convert(text, field);
  return true;
}

std::vector<std::string> path_of_known_variable(std::string_view name) {
  if (name == "E2B_API_KEY") return {"box", "e2b", "api_key"};
  if (name == "E2B_API_URL") return {"box", "e2b", "api_url"};
  return path_of_variable(name);
}
}  // namespace

json::value with_defaults(json::value tree) {
  if (tree.is_null()) tree.emplace_object();
  if (tree.is_object()) fill_in(tree.get_object(), to_json(Config()));
  return tree;
}

Overridden apply_environment(json::value tree, const std::vector<std::string>& environment) {
  Overridden overridden{.tree = std::move(tree)};
  if (overridden.tree.is_null()) overridden.tree.emplace_object();
  if (!overridden.tree.is_object()) return overridden;
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    const std::vector<std::string> path = path_of_known_variable(name);
    if (path.empty()) continue;
    const std::string_view text = std::string_view(entry).substr(equals + 1);
    if (text.empty() && name.starts_with("E2B_")) continue;  // set to nothing is not set
    if (override_field(overridden.tree.get_object(), path, text)) {
      overridden.variables.push_back(name);
    }
  }
  return overridden;
}

}  // namespace caisson::model
