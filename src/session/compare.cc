#include "session/compare.h"

#include <charconv>
#include <set>
#include <string_view>
#include <tuple>

#include "base/str.h"

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

// As Python shows them: clients match on the sentences of LangBot's runtime.
std::string_view python_text(bool value) {
  return value ? "True" : "False";
}

std::string python_text(double value) {
  char buffer[64];
  const std::chars_format format =
      value < 1e-4 ? std::chars_format::scientific : std::chars_format::fixed;
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof buffer, value, format);
  std::string text(buffer, end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
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
    return str("persistent=", python_text(existing.persistent));
  }
  if (existing.cpus != wanted.cpus) return str("cpus=", python_text(existing.cpus));
  if (existing.memory_mb != wanted.memory_mb) return str("memory_mb=", existing.memory_mb);
  if (existing.pids_limit != wanted.pids_limit) return str("pids_limit=", existing.pids_limit);
  if (existing.read_only_rootfs != wanted.read_only_rootfs) {
    return str("read_only_rootfs=", python_text(existing.read_only_rootfs));
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
