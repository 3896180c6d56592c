#include "model/profile.h"

#include <boost/json/value.hpp>

#include "base/str.h"
#include "base/text.h"
#include "model/box_fields.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace {
namespace json = boost::json;

// The fields a profile speaks about, as a request would carry them.
json::object fields_of(const Profile& profile) {
  const BoxRequest request{.box = profile.box, .command = {.timeout_sec = profile.timeout_sec}};
  json::object fields;
  for_each_field([&](const auto& field) {
    if (field.uses.profile) fields[field.name] = written(field.in(request));
  });
  return fields;
}

bool is_unset(const json::object& payload, std::string_view name) {
  const json::value* value = payload.if_contains(name);
  return value == nullptr || value->is_null() ||
         (value->is_string() && value->get_string().empty());
}

// Whether the caller's value says the same as the profile's, in whatever form the reader would
// take.
bool means_the_same(const json::value& asked, const json::value& given) {
  return asked == given || (given.is_bool() && to_bool(asked) == given.get_bool());
}
}  // namespace

const std::vector<Profile>& builtin_profiles() {
  static const std::vector<Profile> profiles = {
      {.name = std::string(kDefaultProfile)},
      {.name = "network_basic", .box = {.network = NetworkMode::on}},
      {.name = "network_extended",
       .box = {.network = NetworkMode::on,
               .cpus = 2.0,
               .memory_mb = 1024,
               .pids_limit = 256,
               .read_only_rootfs = false},
       .max_timeout_sec = 300},
      {.name = "offline"},
      {.name = "offline_readonly",
       .box = {.host_path_mode = MountMode::ro, .cpus = 0.5, .memory_mb = 256, .pids_limit = 64},
       .max_timeout_sec = 60,
       .locked = {"network", "host_path_mode", "read_only_rootfs"}},
  };
  return profiles;
}

const Profile& get_profile(std::string_view name) {
  name = trim(name);
  if (name.empty()) name = kDefaultProfile;
  std::vector<std::string> names;
  for (const Profile& profile : builtin_profiles()) {
    if (profile.name == name) return profile;
    names.push_back(profile.name);
  }
  refuse(
      str("unknown box profile '", printable(name), "', available profiles: ", join(names, ", ")));
}

AppliedProfile apply_profile(const Profile& profile, json::object payload) {
  AppliedProfile applied{.payload = std::move(payload)};
  for (const auto& [name, value] : fields_of(profile)) {
    const json::value* asked = applied.payload.if_contains(name);
    if (asked != nullptr && !profile.locked.contains(std::string_view(name))) continue;
    if (asked != nullptr && !means_the_same(*asked, value)) applied.overridden.emplace_back(name);
    applied.payload[name] = value;
  }
  json::value& timeout = applied.payload["timeout_sec"];
  const std::optional<std::int64_t> seconds = to_integer(timeout);
  if (seconds && *seconds > profile.max_timeout_sec) {
    timeout = profile.max_timeout_sec;
    applied.overridden.emplace_back("timeout_sec");
  }
  return applied;
}

BuiltRequest build_request(const RequestDefaults& defaults, json::object payload,
                           Leniency leniency) {
  if (!payload.contains("env")) payload["env"] = json::object();
  if (defaults.default_workspace && is_unset(payload, "host_path")) {
    payload["host_path"] = *defaults.default_workspace;
  }
  if (defaults.workspace_quota_mb && is_unset(payload, "workspace_quota_mb")) {
    payload["workspace_quota_mb"] = *defaults.workspace_quota_mb;
  }
  if (defaults.image && !payload.contains("image")) payload["image"] = *defaults.image;
  AppliedProfile applied = apply_profile(defaults.profile, std::move(payload));
  return {read_box_request(applied.payload, leniency), std::move(applied.overridden)};
}

}  // namespace caisson::model
