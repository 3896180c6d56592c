#include "model/admission.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "model/box_request.h"
#include "model/field_rules.h"
#include "model/generation.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace {
namespace json = boost::json;

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

std::int64_t in_range(const ObjectReader& reader, std::string_view name, std::int64_t value,
                      std::int64_t least, std::int64_t most = kUnbounded) {
  if (value < least) reader.fail(name, str("must be at least ", least));
  if (value > most) reader.fail(name, str("must be at most ", most));
  return value;
}

std::int64_t required_integer(ObjectReader& reader, std::string_view name, std::int64_t least) {
  return in_range(reader, name, reader.required<std::int64_t>(name, Coercion::strict), least);
}

std::string required_name(ObjectReader& reader, std::string_view name) {
  std::string text(trim(reader.required<std::string>(name)));
  if (text.empty()) reader.fail(name, "must not be empty");
  return text;
}

// A field that has one legal value, kept in the format for the day it has more.
std::string fixed_text(ObjectReader& reader, std::string_view name, const std::string& only) {
  if (reader.optional(name, only) != only) reader.fail(name, str("must be \"", only, "\""));
  return only;
}

double positive_number(ObjectReader& reader, std::string_view name, double fallback, double most) {
  const double number = reader.optional(name, fallback, Coercion::strict);
  if (!std::isfinite(number)) reader.fail(name, "must be a finite number");
  if (number <= 0) reader.fail(name, "must be greater than 0");
  return std::min(number, most);
}
}  // namespace

AdmissionGrant read_admission_grant(const json::value& value) {
  ObjectReader reader(value, "");
  AdmissionGrant grant;
  grant.instance_uuid = required_name(reader, "instance_uuid");
  grant.workspace_uuid = required_name(reader, "workspace_uuid");
  grant.execution_generation = required_integer(reader, "execution_generation", 1);
  if (grant.execution_generation > kMaxGeneration) {
    reader.fail("execution_generation", str("must be less than or equal to ", kMaxGeneration));
  }
  grant.entitlement_revision = required_integer(reader, "entitlement_revision", 1);
  grant.max_sessions = required_integer(reader, "max_sessions", 0);
  grant.max_managed_processes = required_integer(reader, "max_managed_processes", 0);
  grant.expires_at = required_timestamp(reader, "expires_at");
  reader.reject_unknown_fields();
  return grant;
}

AdmissionRevocation read_admission_revocation(const json::value& value) {
  ObjectReader reader(value, "");
  AdmissionRevocation revocation;
  revocation.instance_uuid = required_name(reader, "instance_uuid");
  revocation.workspace_uuid = required_name(reader, "workspace_uuid");
  revocation.entitlement_revision = required_integer(reader, "entitlement_revision", 1);
  reader.reject_unknown_fields();
  return revocation;
}

json::object to_json(const AdmissionGrant& grant) {
  return {{"instance_uuid", grant.instance_uuid},
          {"workspace_uuid", grant.workspace_uuid},
          {"execution_generation", grant.execution_generation},
          {"entitlement_revision", grant.entitlement_revision},
          {"max_sessions", grant.max_sessions},
          {"max_managed_processes", grant.max_managed_processes},
          {"expires_at", timestamp_text(grant.expires_at, UtcMark::offset)}};
}

AdmissionPolicy read_admission_policy(const json::value& value, const std::string& path) {
  ObjectReader reader(value, path);
  AdmissionPolicy policy;
  const auto integer = [&reader](std::string_view name, std::int64_t fallback, std::int64_t least,
                                 std::int64_t most = kUnbounded) {
    return in_range(reader, name, reader.optional(name, fallback, Coercion::strict), least, most);
  };
  policy.required = reader.optional("required", policy.required);
  policy.logical_session_id = fixed_text(reader, "logical_session_id", policy.logical_session_id);
  policy.required_backend = fixed_text(reader, "required_backend", policy.required_backend);
  policy.max_sessions = integer("max_sessions", policy.max_sessions, 0, 1);
  policy.max_managed_processes =
      integer("max_managed_processes", policy.max_managed_processes, 0, 0);
  policy.max_grant_ttl_sec = integer("max_grant_ttl_sec", policy.max_grant_ttl_sec, 1);
  policy.max_timeout_sec = integer("max_timeout_sec", policy.max_timeout_sec, 1);
  policy.cpus = positive_number(reader, "cpus", policy.cpus, kMaxCpus);
  policy.memory_mb = integer("memory_mb", policy.memory_mb, kMinMemoryMb);
  policy.pids_limit = integer("pids_limit", policy.pids_limit, 1);
  policy.read_only_rootfs = reader.optional("read_only_rootfs", policy.read_only_rootfs);
  policy.workspace_quota_mb = integer("workspace_quota_mb", policy.workspace_quota_mb, 0);
  policy.readiness_cache_sec = integer("readiness_cache_sec", policy.readiness_cache_sec, 0);
  reader.reject_unknown_fields();
  policy.max_grant_ttl_sec = std::min(policy.max_grant_ttl_sec, kMaxTimeoutSec);
  policy.max_timeout_sec = std::min(policy.max_timeout_sec, kMaxTimeoutSec);
  policy.memory_mb = std::min(policy.memory_mb, kMaxMegabytes);
  policy.pids_limit = std::min(policy.pids_limit, kMaxPidsLimit);
  policy.workspace_quota_mb = std::min(policy.workspace_quota_mb, kMaxMegabytes);
  policy.readiness_cache_sec = std::min(policy.readiness_cache_sec, kMaxTimeoutSec);
  return policy;
}

json::object to_json(const AdmissionPolicy& policy) {
  return {{"required", policy.required},
          {"logical_session_id", policy.logical_session_id},
          {"required_backend", policy.required_backend},
          {"max_sessions", policy.max_sessions},
          {"max_managed_processes", policy.max_managed_processes},
          {"max_grant_ttl_sec", policy.max_grant_ttl_sec},
          {"max_timeout_sec", policy.max_timeout_sec},
          {"cpus", policy.cpus},
          {"memory_mb", policy.memory_mb},
          {"pids_limit", policy.pids_limit},
          {"read_only_rootfs", policy.read_only_rootfs},
          {"workspace_quota_mb", policy.workspace_quota_mb},
          {"readiness_cache_sec", policy.readiness_cache_sec}};
}

AdmissionSettings update_admission(const AdmissionSettings& previous, const json::value* section) {
  AdmissionSettings next;
  if (section != nullptr) {
    try {
      next.policy = read_admission_policy(*section);
    } catch (const Error& error) {
      return {AdmissionPolicy{.required = true}, error.what()};
    }
  }
  if (previous.policy.required && !next.policy.required) {
    return {previous.policy,
            "Sandbox admission enforcement cannot be disabled without restarting the Box Runtime"};
  }
  return next;
}

}  // namespace caisson::model
