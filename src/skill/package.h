#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "skill/front_matter.h"
#include "skill/skill.h"

namespace caisson::skill {

constexpr const char* kEntryFile = "SKILL.md";
constexpr const char* kEntryFiles[] = {kEntryFile, "skill.md"};  // the first that is there counts

// A text file of at most kMaxTextBytes. `subject` begins the sentence of a refusal. nullopt when it
// is no regular file.
std::optional<std::string> read_text(int package, const std::string& path,
                                     std::string_view subject);
// Throws validation_error when the content is too large or no UTF-8.
void check_text(std::string_view content, std::string_view subject);

// "Skill entry file SKILL.md", for refusals.
std::string entry_subject(const std::string& entry_file);

// Where the entry file of an open directory is; nullopt when the directory is no package.
std::optional<std::string> find_entry_file(int directory);

// What the content of an entry file says about a skill whose directory has this name. Throws
// validation_error when it is unreadable.
Skill read_skill(std::string_view content, const std::string& entry_file,
                 std::string_view directory_name);

// The skill in an open package.
Skill load_package(int package, const std::string& package_root, const std::string& entry_file);

// Files that make a package a Python project, and a directory that does.
constexpr const char* kPythonFiles[] = {"requirements.txt", "pyproject.toml", "setup.py",
                                        "setup.cfg"};
constexpr const char* kPythonDirectory = ".venv";

}  // namespace caisson::skill
