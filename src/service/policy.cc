#include "service/policy.h"

#include <utility>

#include "base/error.h"

namespace caisson::service {

Policy::Policy(const model::BoxConfig& box)
    : enabled_(box.enabled),
      defaults_{.profile = model::get_profile(box.local.profile),
                .workspace_quota_mb = box.local.workspace_quota_mb} {
  if (!box.local.image.empty()) defaults_.image = box.local.image;
}

bool Policy::limits_time(const Caller& caller) const {
  return caller.profile || defaults_.profile.name != model::kDefaultProfile;
}

model::BuiltRequest Policy::apply(const Caller& caller, boost::json::object request) const {
  if (!enabled_) {
    throw Error(ErrorCode::backend_unavailable,
                "there are no boxes here: box.enabled is false in the configuration; set it to "
                "true, and restart the daemon if there is one");
  }
  model::RequestDefaults defaults = defaults_;
  if (caller.profile) defaults.profile = model::get_profile(*caller.profile);
  if (!limits_time(caller)) defaults.profile.max_timeout_sec = model::kMaxTimeoutSec;
  return model::build_request(defaults, std::move(request), caller.leniency);
}

}  // namespace caisson::service
