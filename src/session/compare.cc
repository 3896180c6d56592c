#include "session/compare.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/str.h"
#include "base/text.h"
#include "model/box_fields.h"

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

// Text without quotes, and fractions as people write them.
std::string shown(const boost::json::value& value) {
  if (value.is_string()) return std::string(value.get_string());
  if (value.is_double()) return model::number_text(value.get_double());
  return boost::json::serialize(value);
}

}  // namespace

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

bool differs_in_plain_mounts(const model::BoxSettings& existing, const model::BoxSettings& wanted) {
  const MountChanges changes = mount_changes(existing.extra_mounts, wanted.extra_mounts);
  const auto all_artifacts = [](const std::vector<model::MountSpec>& mounts) {
    return std::ranges::all_of(mounts, &model::MountSpec::is_artifact);
  };
  return !all_artifacts(changes.surplus) || !all_artifacts(changes.missing);
}

SettingsConflict::SettingsConflict(std::string session_id, std::string setting,
                                   boost::json::value existing)
    : Error(ErrorCode::session_conflict,
            str("session ", printable(session_id), " already exists with ", setting, "=",
                printable(shown(existing)),
                ": ask for the same, remove the session with `caisson rm ", printable(session_id),
                "`, or choose another name")),
      session_id_(std::move(session_id)),
      setting_(std::move(setting)),
      existing_(std::move(existing)) {}

void require_compatible(const model::BoxSettings& existing, const model::BoxRequest& wanted) {
  if (auto difference = model::first_difference(existing, wanted.box)) {
    throw SettingsConflict(wanted.session_id, std::string(difference->name),
                           std::move(difference->existing));
  }
  if (wanted.mounting != model::Mounting::fixed) return;
  if (!differs_in_plain_mounts(existing, wanted.box)) return;
  throw SettingsConflict(wanted.session_id, "extra_mounts", model::written(existing.extra_mounts));
}

}  // namespace caisson::session
