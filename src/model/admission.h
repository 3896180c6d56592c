#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>

#include "model/timestamp.h"

namespace caisson::model {

// A workspace's permission to have boxes, until it expires. Unknown fields are refused and integers
// are not coerced: a permission that is not understood to the letter is none.
struct AdmissionGrant {
  std::string instance_uuid;
  std::string workspace_uuid;
  std::int64_t execution_generation = 1;
  std::int64_t entitlement_revision = 1;
  std::int64_t max_sessions = 0;
  std::int64_t max_managed_processes = 0;
  Timestamp expires_at;
  bool operator==(const AdmissionGrant&) const = default;
};

struct AdmissionRevocation {
  std::string instance_uuid;
  std::string workspace_uuid;
  std::int64_t entitlement_revision = 1;
  bool operator==(const AdmissionRevocation&) const = default;
};

AdmissionGrant read_admission_grant(const boost::json::value& value);
AdmissionRevocation read_admission_revocation(const boost::json::value& value);
boost::json::object to_json(const AdmissionGrant& grant);  // `expires_at` with "+00:00"

// What every admitted box gets: `box.admission`.
struct AdmissionPolicy {
  bool required = false;
  std::string logical_session_id = "global";
  std::string required_backend = "nsjail";
  std::int64_t max_sessions = 1;
  std::int64_t max_managed_processes = 0;
  std::int64_t max_grant_ttl_sec = 300;
  std::int64_t max_timeout_sec = 120;
  double cpus = 1.0;
  std::int64_t memory_mb = 512;
  std::int64_t pids_limit = 128;
  bool read_only_rootfs = true;
  std::int64_t workspace_quota_mb = 0;
  std::int64_t readiness_cache_sec = 15;
  bool operator==(const AdmissionPolicy&) const = default;
};

AdmissionPolicy read_admission_policy(const boost::json::value& value,
                                      const std::string& path = "admission");
boost::json::object to_json(const AdmissionPolicy& policy);

// The policy in effect. With an error in it nothing is admitted until the configuration is mended.
struct AdmissionSettings {
  AdmissionPolicy policy;
  std::string configuration_error;  // empty: none
  bool operator==(const AdmissionSettings&) const = default;
};

// The settings after `section` (null when the configuration has none) replaces `previous`. Never a
// silent downgrade: a malformed section requires admission and admits nobody, and once required,
// admission stays required under the previous policy.
AdmissionSettings update_admission(const AdmissionSettings& previous,
                                   const boost::json::value* section);

}  // namespace caisson::model
