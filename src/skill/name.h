#pragma once
#include <string>
#include <string_view>

namespace caisson::skill {

// The trimmed name of a skill: letters and digits of any script, hyphens and underscores, with at
// least one letter or digit. Throws validation_error otherwise. A valid name is also a safe name
// of a directory.
std::string check_name(std::string_view name);

// The stem of an uploaded file's name as part of a directory's name: what is no letter, digit,
// hyphen or underscore becomes a hyphen. "My Demo.zip" -> "My-Demo". Never empty.
std::string target_stem(std::string_view file_name);

// The same for a suffix that a caller chose; may be empty.
std::string target_suffix(std::string_view suffix);

}  // namespace caisson::skill
