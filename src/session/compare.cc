#include "session/compare.h"

#include <set>
#include <string_view>
#include <tuple>

#include "base/str.h"
#include "model/python_text.h"

namespace caisson::session {

namespace {

using ShownMount = std::tuple<std::string, std::string, model::MountMode>;

std::set<ShownMount> shown_mounts(const model::BoxSpec& spec) {
  std::set<ShownMount> result;
  for (const model::MountSpec& mount : spec.extra_mounts) {
    if (mount.mode == model::MountMode::none) continue;
    result.emplace(mount.host_path, mount.mount_path, mount.mode);
  }
  return result;
}

}  // namespace

std::optional<std::string> first_conflict(const model::BoxSpec& existing,
                                          const model::BoxSpec& wanted) {
  if (existing.network != wanted.network) return str("network=", to_string(existing.network));
  if (existing.image != wanted.image) return str("image=", existing.image);
  if (existing.host_path != wanted.host_path) {
    return str("host_path=", existing.host_path.value_or("None"));
  }
  if (existing.host_path_mode != wanted.host_path_mode) {
    return str("host_path_mode=", to_string(existing.host_path_mode));
  }
  if (existing.mount_path != wanted.mount_path) return str("mount_path=", existing.mount_path);
  if (existing.persistent != wanted.persistent) {
    return str("persistent=", model::python_text(existing.persistent));
  }
  if (existing.cpus != wanted.cpus) return str("cpus=", model::python_text(existing.cpus));
  if (existing.memory_mb != wanted.memory_mb) return str("memory_mb=", existing.memory_mb);
  if (existing.pids_limit != wanted.pids_limit) return str("pids_limit=", existing.pids_limit);
  if (existing.read_only_rootfs != wanted.read_only_rootfs) {
    return str("read_only_rootfs=", model::python_text(existing.read_only_rootfs));
  }
  if (existing.workspace_quota_mb != wanted.workspace_quota_mb) {
    return str("workspace_quota_mb=", existing.workspace_quota_mb);
  }
  return std::nullopt;
}

bool same_extra_mounts(const model::BoxSpec& existing, const model::BoxSpec& wanted) {
  return shown_mounts(existing) == shown_mounts(wanted);
}

}  // namespace caisson::session
