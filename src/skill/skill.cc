#include "skill/skill.h"

namespace caisson::skill {

boost::json::object to_json(const Skill& skill) {
  const auto text = [](model::Timestamp time) {
    return model::timestamp_text(time, model::UtcMark::offset);
  };
  boost::json::object object{{"name", skill.name},
                             {"display_name", skill.display_name},
                             {"description", skill.description},
                             {"instructions", skill.instructions},
                             {"package_root", skill.package_root},
                             {"entry_file", skill.entry_file},
                             {"python_project", skill.python_project},
                             {"created_at", text(skill.created_at)},
                             {"updated_at", text(skill.updated_at)}};
  if (skill.source_path) object.emplace("source_path", *skill.source_path);
  return object;
}

}  // namespace caisson::skill
