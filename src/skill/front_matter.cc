#include "skill/front_matter.h"

#include <boost/json/object.hpp>
#include <utility>
#include <vector>

#include "base/str.h"
#include "base/text.h"
#include "model/yaml.h"

namespace caisson::skill {

namespace {

constexpr std::string_view kFence = "---";

// Takes the first line off, with its end: "\n", "\r\n" or "\r".
std::string_view take_line(std::string_view& rest) {
  std::size_t end = rest.find_first_of("\r\n");
  if (end == std::string_view::npos) end = rest.size();
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end);
  if (rest.starts_with("\r\n")) {
    rest.remove_prefix(2);
  } else if (!rest.empty()) {
    rest.remove_prefix(1);
  }
  return line;
}

std::string text_of(const boost::json::object& mapping, std::string_view key) {
  const boost::json::value* value = mapping.if_contains(key);
  if (value == nullptr || !value->is_string()) return {};
  return std::string(trim(value->get_string()));
}

}  // namespace

EntryText parse_entry(std::string_view content, const std::string& file_name) {
  EntryText entry;
  std::string_view rest = content;
  const std::string_view first = take_line(rest);
  if (first.starts_with(kFence) && trim(first) == kFence) {
    const std::string_view matter = rest;
    while (!rest.empty()) {
      const std::size_t length = matter.size() - rest.size();
      if (trim(take_line(rest)) != kFence) continue;
      // The empty line stands for the first "---", so that an error names the line of the file.
      const boost::json::value mapping = model::parse_yaml(str("\n", matter.substr(0, length)),
                                                           file_name, model::PlainScalars::text);
      if (const boost::json::object* object = mapping.if_object()) {
        entry.name = text_of(*object, "name");
        entry.display_name = text_of(*object, "display_name");
        entry.description = text_of(*object, "description");
      }
      const std::size_t body = rest.find_first_not_of("\r\n");
      if (body != std::string_view::npos) entry.instructions = rest.substr(body);
      return entry;
    }
  }
  entry.instructions = content;
  return entry;
}

std::string build_entry(const EntryText& entry) {
  std::vector<std::pair<std::string, std::string>> matter;
  const auto add = [&](const char* key, const std::string& text) {
    if (!trim(text).empty()) matter.emplace_back(key, text);
  };
  add("name", entry.name);
  add("display_name", entry.display_name);
  add("description", entry.description);
  if (matter.empty()) return entry.instructions;
  return str("---\n", model::write_yaml(matter), "---\n\n", entry.instructions);
}

}  // namespace caisson::skill
