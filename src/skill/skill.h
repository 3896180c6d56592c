#pragma once
#include <boost/json/object.hpp>
#include <optional>
#include <string>

#include "model/timestamp.h"

namespace caisson::skill {

// A skill is a directory, its package, with a file of instructions for an agent (its entry file)
// and whatever else the instructions speak of. Names and texts come from the entry file.
struct Skill {
  std::string name;
  std::string display_name;
  std::string description;
  std::string instructions;
  std::string package_root;  // absolute path; of a preview, where it would be installed
  std::string entry_file;    // "SKILL.md" or "skill.md"
  bool python_project = false;
  model::Timestamp created_at;  // of the entry file: its change and modification
  model::Timestamp updated_at;
  std::optional<std::string> source_path;  // of a preview: in the archive, "" for its root

  bool operator==(const Skill&) const = default;
};

// As LangBot reads it; without a source path where there is none.
boost::json::object to_json(const Skill& skill);

}  // namespace caisson::skill
