#include "model/field_rules.h"

#include "base/path.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"

namespace caisson::model {

namespace {
std::string in_object(std::string_view path, const std::string& sentence) {
  return path.empty() ? sentence : str(path, ": ", sentence);
}

bool is_windows_absolute(std::string_view text) {
  const auto is_separator = [](char c) { return c == '/' || c == '\\'; };
  if (text.starts_with('\\')) return true;  // a share, or the root of the current drive
  if (text.size() < 3 || text[1] != ':' || !is_separator(text[2])) return false;
  return (text[0] >= 'A' && text[0] <= 'Z') || (text[0] >= 'a' && text[0] <= 'z');
}
// Trimmed and normal, also when read again: a last component of blanks is trimmed away, too.
std::string stable_path(std::string_view trimmed) {
  std::string path = normalise_path(trimmed);
  while (trim(path).size() != path.size()) path = normalise_path(trim(path));
  return path;
}

}  // namespace

std::string box_path(std::string_view text, std::string_view name, std::string_view path) {
  const std::string_view trimmed = trim(text);
  if (!trimmed.starts_with('/')) {
    refuse(in_object(path, str(name, " must be an absolute path inside the sandbox")));
  }
  return stable_path(trimmed);
}

std::string host_path(std::string_view text, std::string_view path, std::string_view name) {
  const std::string_view trimmed = trim(text);
  if (trimmed.starts_with('/')) return stable_path(trimmed);
  if (!is_windows_absolute(trimmed)) {
    refuse(in_object(path, str(name, " must be an absolute host path")));
  }
  return std::string(trimmed);
}

void check_text(std::string_view text, std::string_view name) {
  if (!is_utf8(text)) refuse(str(name, " must be UTF-8: \"", printable(text), "\""));
}

void check_environment(const std::map<std::string, std::string>& env, std::string_view path) {
  for (const auto& [name, value] : env) {
    if (name.empty() || name.find('=') != std::string::npos) {
      refuse(str(path, ": the name \"", printable(name), "\" must not be empty or contain '='"));
    }
  }
}

Timestamp required_timestamp(ObjectReader& reader, std::string_view name) {
  const boost::json::value* value = reader.find(name);
  if (value == nullptr) reader.fail(name, "is required");
  const std::optional<ParsedTimestamp> parsed = parse_timestamp(*value);
  if (!parsed) reader.fail(name, "must be a date and time, e.g. 2026-11-15T18:45:33Z");
  if (!parsed->has_zone) refuse(str(reader.path_of(name), " must include a timezone"));
  return parsed->time;
}

}  // namespace caisson::model
