#include "model/session_info.h"

#include <utility>

#include "model/box_fields.h"
#include "model/field_rules.h"
#include "model/object_reader.h"

namespace caisson::model {

boost::json::object to_json(const SessionInfo& info) {
  boost::json::object object{{"session_id", info.session_id},
                             {"backend_name", info.backend_name},
                             {"backend_session_id", info.backend_session_id}};
  for (auto& [name, value] : to_json(info.box)) object[name] = std::move(value);
  object["created_at"] = timestamp_text(info.created_at);
  object["last_used_at"] = timestamp_text(info.last_used_at);
  return object;
}

SessionInfo read_session_info(const boost::json::value& value) {
  ObjectReader reader(value, "");
  SessionInfo info;
  info.session_id = reader.required<std::string>("session_id");
  info.backend_name = reader.required<std::string>("backend_name");
  info.backend_session_id = reader.optional("backend_session_id", info.backend_session_id);
  info.box = read_shown_settings(reader);
  info.created_at = required_timestamp(reader, "created_at");
  info.last_used_at = required_timestamp(reader, "last_used_at");
  return info;
}

}  // namespace caisson::model
