#include "skill/entry_fields.h"

#include <boost/json/serialize.hpp>

#include "base/str.h"
#include "model/object_reader.h"

namespace caisson::skill {

std::optional<std::string> field_text(const boost::json::object& data, std::string_view name) {
  const boost::json::value* value = data.if_contains(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (const boost::json::string* text = value->if_string()) return std::string(*text);
  if (value->is_array() || value->is_object()) model::refuse(str(name, ": must be a string"));
  return boost::json::serialize(*value);
}

}  // namespace caisson::skill
