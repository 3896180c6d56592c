#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/admission.h"
#include "model/box_request.h"
#include "session/tenancy.h"

namespace caisson::session {

// Which workspaces may have boxes: grants that expire, and what was revoked. A revision that was
// seen or revoked stays known, so that nothing that is older can come back. Workspaces are filed
// under their namespaces. Pure; whoever uses it says what time it is.
class Admission {
 public:
  Admission() = default;
  explicit Admission(model::AdmissionSettings settings) : settings_(std::move(settings)) {}

  const model::AdmissionPolicy& policy() const { return settings_.policy; }
  bool required() const { return settings_.policy.required; }
  const std::string& configuration_error() const { return settings_.configuration_error; }
  void set_settings(model::AdmissionSettings settings) { settings_ = std::move(settings); }

  // Throws admission_refused unless there is a grant for this tenant's sessions now, and not_ready
  // when the policy itself is at fault.
  void check(const Tenant& tenant, model::Timestamp now) const;
  // How many sessions it may have now: none when check() would throw.
  std::int64_t max_sessions(const Tenant& tenant, model::Timestamp now) const;
  // As check(), for its processes.
  void check_processes(const Tenant& tenant, model::Timestamp now) const;

  // What becomes of the workspace's sessions when a grant is installed.
  enum class Sessions {
    keep,     // all but those that no grant can have made
    end_all,  //
  };
  struct Installed {
    model::AdmissionGrant grant;  // the one in force: an earlier one that expires later stays
    Sessions sessions = Sessions::keep;
  };
  // Throws admission_refused, in LangBot's order of checks; nothing has changed then.
  Installed install(const model::AdmissionGrant& grant, model::Timestamp now, std::size_t capacity);

  // Throws admission_refused. The workspace's sessions are to end.
  void revoke(const model::AdmissionRevocation& revocation, std::size_t capacity);

  // Forgets the grants that have expired; gives the namespaces whose sessions are to end.
  std::vector<std::string> expire(model::Timestamp now);

 private:
  struct Record {
    std::int64_t highest_revision = 0;
    std::int64_t highest_generation = 0;
    std::int64_t revoked_revision = 0;
    std::optional<model::AdmissionGrant> grant;
  };

  void check_policy() const;
  void check_enforced() const;
  const model::AdmissionGrant& valid_grant(const Tenant& tenant, model::Timestamp now) const;
  void check_limits(const model::AdmissionGrant& grant, model::Timestamp now) const;
  Record& record_of(const std::string& name_space, std::size_t capacity);

  model::AdmissionSettings settings_;
  std::map<std::string, Record> records_;
  model::Timestamp next_expiry_ = model::Timestamp::max();  // of all grants, or earlier
};

// What a session of an admitted workspace gets, whatever was asked for: the policy's limits, and
// one directory of the host. Throws admission_refused for what a tenant may not ask for. The
// command, its environment and its directory below /workspace are the tenant's own.
model::BoxRequest admitted_request(model::BoxRequest asked, const model::AdmissionPolicy& policy,
                                   const std::string& workspace_path);

}  // namespace caisson::session
