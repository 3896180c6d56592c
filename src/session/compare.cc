#include "session/compare.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "model/image_name.h"
#include "model/python_text.h"

namespace caisson::session {

namespace {

bool contains(const std::vector<model::MountSpec>& mounts, const model::MountSpec& wanted) {
  return std::ranges::find(mounts, wanted) != mounts.end();
}

std::vector<model::MountSpec> without(std::vector<model::MountSpec> mounts,
                                      const std::vector<model::MountSpec>& others) {
  std::erase_if(mounts, [&](const model::MountSpec& mount) { return contains(others, mount); });
  return mounts;
}

}  // namespace

std::optional<std::string> first_conflict(const model::BoxSpec& existing,
                                          const model::BoxSpec& wanted) {
  if (existing.network != wanted.network) return str("network=", to_string(existing.network));
  if (!model::is_same_image(existing.image, wanted.image)) return str("image=", existing.image);
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

std::vector<model::MountSpec> shown_mounts(const std::vector<model::MountSpec>& mounts) {
  std::vector<model::MountSpec> shown;
  for (const model::MountSpec& mount : mounts) {
    if (mount.mode != model::MountMode::none && !contains(shown, mount)) shown.push_back(mount);
  }
  return shown;
}

MountChanges mount_changes(const std::vector<model::MountSpec>& shown,
                           const std::vector<model::MountSpec>& wanted) {
  const std::vector<model::MountSpec> before = shown_mounts(shown);
  const std::vector<model::MountSpec> after = shown_mounts(wanted);
  return {.surplus = without(before, after), .missing = without(after, before)};
}

bool differs_in_plain_mounts(const model::BoxSpec& existing, const model::BoxSpec& wanted) {
  const MountChanges changes = mount_changes(existing.extra_mounts, wanted.extra_mounts);
  const auto all_artifacts = [](const std::vector<model::MountSpec>& mounts) {
    return std::ranges::all_of(mounts, &model::MountSpec::is_artifact);
  };
  return !all_artifacts(changes.surplus) || !all_artifacts(changes.missing);
}

void require_compatible(const model::BoxSpec& existing, const model::BoxSpec& wanted) {
  if (const auto conflict = first_conflict(existing, wanted)) {
    throw Error(ErrorCode::session_conflict, str("Box session ", printable(existing.session_id),
                                                 " already exists with ", *conflict));
  }
  if (wanted.mounting != model::Mounting::fixed || !differs_in_plain_mounts(existing, wanted)) {
    return;
  }
  throw Error(ErrorCode::session_conflict,
              "Box mounts differ from this session's immutable mount set; acquire a Box with a "
              "distinct reuse key for different host mounts. The existing session was preserved.");
}

}  // namespace caisson::session
