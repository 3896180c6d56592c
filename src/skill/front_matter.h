#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace caisson::skill {

// What an entry file says: a YAML mapping between two lines of "---" at its very beginning, then
// the instructions. Only these three keys are used; they are texts, and blank is as good as absent.
struct EntryText {
  std::string name;
  std::string display_name;
  std::string description;
  std::string instructions;
  bool operator==(const EntryText&) const = default;
};

// Without a second "---" all of it is instructions; front matter that is no mapping counts as
// empty. Throws validation_error when it is no YAML, with the line in the file.
EntryText parse_entry(std::string_view content, const std::string& file_name);

// The file that parse_entry reads as that. Blank texts are left out, and with all of them the front
// matter itself.
std::string build_entry(const EntryText& entry);

}  // namespace caisson::skill
