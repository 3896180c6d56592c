#include "skill/name.h"

#include <algorithm>

#include "base/text.h"
#include "base/unicode.h"
#include "model/object_reader.h"
#include "skill/limits.h"

namespace caisson::skill {

namespace {

bool is_name_character(char32_t c) {
  return c == U'-' || c == U'_' || is_alphanumeric(c);
}

std::string sanitised(std::string_view text) {
  std::string safe;
  for (const char32_t c : to_utf32(text)) append_utf8(safe, is_name_character(c) ? c : U'-');
  const std::size_t first = safe.find_first_not_of("-_");
  if (first == std::string::npos) return {};
  return safe.substr(first, safe.find_last_not_of("-_") - first + 1);
}

}  // namespace

std::string check_name(std::string_view name) {
  name = trim(name);
  if (name.empty()) model::refuse("Skill name is required");
  const std::u32string characters = to_utf32(name);
  if (!std::all_of(characters.begin(), characters.end(), is_name_character) ||
      std::none_of(characters.begin(), characters.end(), is_alphanumeric)) {
    model::refuse("Skill name can only contain letters, numbers, hyphens and underscores");
  }
  // A directory of that name has to fit as well: four bytes a character may be too many.
  if (characters.size() > kMaxNameCharacters || name.size() > kMaxNameBytes) {
    model::refuse("Skill name cannot exceed 64 characters");
  }
  return std::string(name);
}

std::string target_stem(std::string_view file_name) {
  file_name = trim(file_name);
  file_name.remove_prefix(file_name.find_last_of('/') + 1);
  // Dots at the beginning are part of the name, not of an extension.
  const std::size_t dot = file_name.rfind('.');
  const std::size_t first = file_name.find_first_not_of('.');
  if (dot != std::string_view::npos && first != std::string_view::npos && first < dot) {
    file_name = file_name.substr(0, dot);
  }
  const std::string stem = sanitised(file_name);
  return stem.empty() ? "uploaded-skill" : stem;
}

std::string target_suffix(std::string_view suffix) {
  return sanitised(suffix);
}

}  // namespace caisson::skill
