#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/box_request.h"

namespace caisson::model {

// Named defaults for a box. A locked field is not the caller's to choose.
struct Profile {
  std::string name;
  BoxSettings box = {};  // and the timeout: those fields that box_fields.h has for profiles
  std::int64_t timeout_sec = kDefaultTimeoutSec;
  std::int64_t max_timeout_sec = 120;
  std::set<std::string, std::less<>> locked = {};  // names of fields
  bool operator==(const Profile&) const = default;
};

inline constexpr std::string_view kDefaultProfile = "default";

const std::vector<Profile>& builtin_profiles();  // sorted by name

// The profile of that name after trimming; blank is the default one. Throws "unknown box profile
// '<name>', available profiles: ...".
const Profile& get_profile(std::string_view name);

// A request with the profile applied, and the fields that came out other than the caller asked, so
// that the answer can say so instead of leaving the caller to wonder.
struct AppliedProfile {
  boost::json::object payload;
  std::vector<std::string> overridden;
};

// Locked fields overwrite; others fill in only what is absent (a null stays, and fails validation).
// A timeout beyond the profile's maximum becomes the maximum.
AppliedProfile apply_profile(const Profile& profile, boost::json::object payload);

// What the configuration says about a box where its caller says nothing.
struct RequestDefaults {
  Profile profile;
  std::optional<std::string> default_workspace;  // the host path when none is given
  std::optional<std::int64_t> workspace_quota_mb;
  std::optional<std::string> image;  // wins over the profile's
};

struct BuiltRequest {
  BoxRequest request;
  std::vector<std::string> overridden;
};

// A caller's request made complete and valid: workspace, quota, image, profile, validation, in this
// order. Whether the host path may be mounted is not judged here.
BuiltRequest build_request(const RequestDefaults& defaults, boost::json::object payload,
                           Leniency leniency = Leniency::lenient);

}  // namespace caisson::model
