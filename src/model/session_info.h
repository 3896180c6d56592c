#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "model/box_settings.h"
#include "model/timestamp.h"

namespace caisson::model {

// What callers see of a session: the settings its box was made with, and when it was used.
struct SessionInfo {
  std::string session_id;
  std::string backend_name;
  std::string backend_session_id;
  BoxSettings box = {};  // its extra mounts are shown beside it: they change
  Timestamp created_at;
  Timestamp last_used_at;
  bool operator==(const SessionInfo&) const = default;
};

boost::json::object to_json(const SessionInfo& info);
SessionInfo read_session_info(const boost::json::value& value);  // what a daemon answered

}  // namespace caisson::model
