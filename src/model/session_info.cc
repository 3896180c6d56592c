#include "model/session_info.h"

#include <boost/json/value_from.hpp>

#include "model/field_rules.h"
#include "model/object_reader.h"

namespace caisson::model {

SessionInfo session_info_of(const BoxSpec& spec) {
  return {.session_id = spec.session_id,
          .image = spec.image,
          .network = spec.network,
          .host_path = spec.host_path,
          .host_path_mode = spec.host_path_mode,
          .mount_path = spec.mount_path,
          .persistent = spec.persistent,
          .cpus = spec.cpus,
          .memory_mb = spec.memory_mb,
          .pids_limit = spec.pids_limit,
          .read_only_rootfs = spec.read_only_rootfs,
          .workspace_quota_mb = spec.workspace_quota_mb};
}

boost::json::object to_json(const SessionInfo& info) {
  return {{"session_id", info.session_id},
          {"backend_name", info.backend_name},
          {"backend_session_id", info.backend_session_id},
          {"image", info.image},
          {"network", to_string(info.network)},
          {"host_path", boost::json::value_from(info.host_path)},
          {"host_path_mode", to_string(info.host_path_mode)},
          {"mount_path", info.mount_path},
          {"persistent", info.persistent},
          {"cpus", info.cpus},
          {"memory_mb", info.memory_mb},
          {"pids_limit", info.pids_limit},
          {"read_only_rootfs", info.read_only_rootfs},
          {"workspace_quota_mb", info.workspace_quota_mb},
          {"created_at", timestamp_text(info.created_at)},
          {"last_used_at", timestamp_text(info.last_used_at)}};
}

SessionInfo read_session_info(const boost::json::value& value) {
  ObjectReader reader(value, "");
  SessionInfo info;
  info.session_id = reader.required<std::string>("session_id");
  info.backend_name = reader.required<std::string>("backend_name");
  info.backend_session_id = reader.optional("backend_session_id", info.backend_session_id);
  info.image = reader.optional("image", info.image);
  info.network = reader.choice("network", info.network, {NetworkMode::off, NetworkMode::on});
  info.host_path = reader.nullable<std::string>("host_path");
  info.host_path_mode = reader.choice("host_path_mode", info.host_path_mode,
                                      {MountMode::none, MountMode::ro, MountMode::rw});
  info.mount_path = reader.optional("mount_path", info.mount_path);
  info.persistent = reader.optional("persistent", info.persistent);
  info.cpus = reader.optional("cpus", info.cpus);
  info.memory_mb = reader.optional("memory_mb", info.memory_mb);
  info.pids_limit = reader.optional("pids_limit", info.pids_limit);
  info.read_only_rootfs = reader.optional("read_only_rootfs", info.read_only_rootfs);
  info.workspace_quota_mb = reader.optional("workspace_quota_mb", info.workspace_quota_mb);
  info.created_at = required_timestamp(reader, "created_at");
  info.last_used_at = required_timestamp(reader, "last_used_at");
  return info;
}

}  // namespace caisson::model
