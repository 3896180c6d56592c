#include "session/admission.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/error.h"
#include "base/path.h"
#include "base/str.h"

namespace caisson::session {

namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::admission_refused, sentence);
}

constexpr std::size_t kMaxAdmittedMounts = 256;

// Whether their sources may be shown is judged where they are mounted, as of every mount.
void check_mounts(const std::vector<model::MountSpec>& mounts) {
  if (mounts.size() > kMaxAdmittedMounts) {
    refuse(str("Managed sandbox accepts at most ", kMaxAdmittedMounts, " read-only mounts"));
  }
  std::set<std::string, std::less<>> targets;
  for (const model::MountSpec& mount : mounts) {
    if (mount.mode != model::MountMode::ro) {
      refuse("Managed sandbox additional mounts must be read-only");
    }
    if (mount.manifest_path && !mount.content_digest) {
      refuse("Managed sandbox mount manifests require content_digest");
    }
    const bool below = is_within(mount.mount_path, model::kDefaultMountPath) &&
                       mount.mount_path != model::kDefaultMountPath;
    if (!mount.is_artifact() && !below) {
      refuse("Managed sandbox additional mount targets must stay under /workspace");
    }
    if (!targets.insert(mount.mount_path).second) {
      refuse("Managed sandbox additional mount targets must be unique");
    }
  }
}

}  // namespace

void Admission::check_policy() const {
  if (settings_.configuration_error.empty()) return;
  throw Error(ErrorCode::not_ready,
              str("Invalid sandbox admission configuration: ", settings_.configuration_error));
}

void Admission::check_enforced() const {
  if (!required()) refuse("Sandbox admission enforcement is not enabled");
  check_policy();
}

const model::AdmissionGrant& Admission::valid_grant(const Tenant& tenant,
                                                    model::Timestamp now) const {
  check_policy();
  const auto found = records_.find(workspace_namespace(tenant));
  if (found == records_.end() || !found->second.grant) {
    refuse("Sandbox admission grant is missing");
  }
  const model::AdmissionGrant& grant = *found->second.grant;
  if (grant.expires_at <= now) refuse("Sandbox admission grant has expired");
  if (grant.execution_generation != tenant.generation) {
    refuse("Sandbox admission grant belongs to another execution generation");
  }
  return grant;
}

void Admission::check(const Tenant& tenant, model::Timestamp now) const {
  const model::AdmissionGrant& grant = valid_grant(tenant, now);
  if (grant.max_sessions == 0) refuse("Sandbox admission grant does not permit sessions");
  if (grant.max_sessions > policy().max_sessions ||
      grant.max_managed_processes > policy().max_managed_processes) {
    refuse("Sandbox admission grant exceeds the active runtime policy");
  }
}

std::int64_t Admission::max_sessions(const Tenant& tenant, model::Timestamp now) const {
  try {
    check(tenant, now);
  } catch (const Error&) {
    return 0;
  }
  return valid_grant(tenant, now).max_sessions;
}

void Admission::check_processes(const Tenant& tenant, model::Timestamp now) const {
  if (valid_grant(tenant, now).max_managed_processes == 0) {
    refuse("Sandbox admission grant does not permit managed processes");
  }
}

Admission::Record& Admission::record_of(const std::string& name_space, std::size_t capacity) {
  if (const auto found = records_.find(name_space); found != records_.end()) return found->second;
  if (records_.size() >= capacity) {
    refuse(
        "Sandbox admission record capacity reached; refusing an unbounded Workspace fence "
        "allocation");
  }
  return records_[name_space];
}

void Admission::check_limits(const model::AdmissionGrant& grant, model::Timestamp now) const {
  if (grant.expires_at <= now) refuse("Cannot install an expired sandbox admission grant");
  if (grant.expires_at - now > std::chrono::seconds(policy().max_grant_ttl_sec)) {
    refuse("Sandbox admission grant lifetime exceeds the configured maximum");
  }
  if (grant.max_sessions > policy().max_sessions) {
    refuse("Sandbox admission grant exceeds the session cap");
  }
  if (grant.max_managed_processes > policy().max_managed_processes) {
    refuse("Sandbox admission grant exceeds the managed-process cap");
  }
}

Admission::Installed Admission::install(const model::AdmissionGrant& grant, model::Timestamp now,
                                        std::size_t capacity) {
  check_enforced();
  check_limits(grant, now);
  Record& record =
      record_of(workspace_namespace(grant.instance_uuid, grant.workspace_uuid), capacity);
  if (grant.entitlement_revision <= record.revoked_revision) {
    refuse("Sandbox admission grant revision was revoked");
  }
  if (grant.entitlement_revision < record.highest_revision) {
    refuse("Sandbox admission grant revision is stale");
  }
  if (grant.execution_generation < record.highest_generation) {
    refuse("Sandbox admission execution generation is stale");
  }
  const std::optional<model::AdmissionGrant>& present = record.grant;
  if (present && present->entitlement_revision == grant.entitlement_revision) {
    if (present->max_sessions != grant.max_sessions ||
        present->max_managed_processes != grant.max_managed_processes) {
      refuse("Sandbox admission limits changed without a new entitlement revision");
    }
    if (present->execution_generation == grant.execution_generation &&
        grant.expires_at < present->expires_at) {
      return {.grant = *present, .sessions = Sessions::keep};
    }
  }
  const bool fresh = !present || present->expires_at <= now ||
                     present->execution_generation != grant.execution_generation;
  record.highest_revision = grant.entitlement_revision;
  record.highest_generation = grant.execution_generation;
  record.grant = grant;
  next_expiry_ = std::min(next_expiry_, grant.expires_at);
  return {.grant = grant,
          .sessions = fresh || grant.max_sessions == 0 ? Sessions::end_all : Sessions::keep};
}

void Admission::revoke(const model::AdmissionRevocation& revocation, std::size_t capacity) {
  check_enforced();
  Record& record =
      record_of(workspace_namespace(revocation.instance_uuid, revocation.workspace_uuid), capacity);
  if (revocation.entitlement_revision <
      std::max(record.highest_revision, record.revoked_revision)) {
    refuse("Sandbox admission revocation is stale");
  }
  record.revoked_revision = revocation.entitlement_revision;
  record.highest_revision = revocation.entitlement_revision;
  record.grant.reset();
}

std::vector<std::string> Admission::expire(model::Timestamp now) {
  std::vector<std::string> ended;
  if (now < next_expiry_) return ended;
  next_expiry_ = model::Timestamp::max();
  for (auto& [name_space, record] : records_) {
    if (!record.grant) continue;
    if (record.grant->expires_at > now) {
      next_expiry_ = std::min(next_expiry_, record.grant->expires_at);
      continue;
    }
    record.grant.reset();
    ended.push_back(name_space);
  }
  return ended;
}

model::BoxRequest admitted_request(model::BoxRequest asked, const model::AdmissionPolicy& policy,
                                   const std::string& workspace_path) {
  if (asked.box.network != model::NetworkMode::off) {
    refuse("Managed sandbox network access is disabled");
  }
  if (asked.box.mount_path != model::kDefaultMountPath) {
    refuse("Managed sandbox mount_path is runtime-owned");
  }
  if (!is_within(asked.command.workdir, model::kDefaultMountPath)) {
    refuse("Managed sandbox workdir must stay under /workspace");
  }
  if (asked.box.host_path && *asked.box.host_path != workspace_path) {
    refuse("Managed sandbox host_path is runtime-owned");
  }
  // Hosts before 0.7, which say which skill they mean, have no other mounts.
  if (asked.mounting == model::Mounting::follows && !asked.box.extra_mounts.empty()) {
    refuse("Managed sandbox additional host mounts are disabled");
  }
  check_mounts(asked.box.extra_mounts);
  model::BoxRequest request;
  request.command = std::move(asked.command);
  request.command.timeout_sec = std::min(request.command.timeout_sec, policy.max_timeout_sec);
  request.mounting = asked.mounting;
  request.box = {.host_path = workspace_path,
                 .host_path_mode = model::MountMode::rw,
                 .extra_mounts = std::move(asked.box.extra_mounts),
                 .persistent = true,
                 .cpus = policy.cpus,
                 .memory_mb = policy.memory_mb,
                 .pids_limit = policy.pids_limit,
                 .read_only_rootfs = policy.read_only_rootfs,
                 .workspace_quota_mb = policy.workspace_quota_mb};
  return request;
}

}  // namespace caisson::session
