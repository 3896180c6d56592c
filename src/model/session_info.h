#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "model/box_spec.h"
#include "model/timestamp.h"

namespace caisson::model {

// What callers see of a session: the settings its box was made with, and when it was used.
struct SessionInfo {
  std::string session_id;
  std::string backend_name;
  std::string backend_session_id;
  std::string image;
  NetworkMode network = NetworkMode::off;
  std::optional<std::string> host_path;
  MountMode host_path_mode = MountMode::rw;
  std::string mount_path{kDefaultMountPath};
  bool persistent = false;
  double cpus = 1.0;
  std::int64_t memory_mb = 512;
  std::int64_t pids_limit = 128;
  bool read_only_rootfs = true;
  std::int64_t workspace_quota_mb = 0;
  Timestamp created_at;
  Timestamp last_used_at;
  bool operator==(const SessionInfo&) const = default;
};

// The settings of `spec`; who made the box and when is the caller's to fill in.
SessionInfo session_info_of(const BoxSpec& spec);

boost::json::object to_json(const SessionInfo& info);
SessionInfo read_session_info(const boost::json::value& value);  // what a daemon answered

}  // namespace caisson::model
