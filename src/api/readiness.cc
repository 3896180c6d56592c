#include "api/readiness.h"

#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"
#include "model/isolation.h"

namespace caisson::api {

namespace json = boost::json;
namespace fs = std::filesystem;
using model::Layer;

namespace {

bool in_force(const model::IsolationReport& report, std::initializer_list<Layer> layers) {
  return std::all_of(layers.begin(), layers.end(), [&](Layer layer) {
    const model::LayerReport* found = report.find(layer);
    return found != nullptr && found->state == model::LayerState::in_force;
  });
}

bool has_workspace(const service::BoxConfiguration& configuration) {
  const std::optional<fs::path> workspace = configuration.default_workspace();
  if (!workspace) return false;
  const auto& roots = configuration.mount_roots();
  const bool allowed = std::any_of(roots.begin(), roots.end(), [&](const std::string& root) {
    return is_within(workspace->native(), root);
  });
  std::error_code error;
  return allowed && fs::is_directory(*workspace, error) &&
         ::access(workspace->c_str(), R_OK | W_OK | X_OK) == 0;
}

std::vector<std::string> failed_checks(const json::object& report) {
  std::vector<std::string> failed;
  for (const auto& check : report.at("checks").as_object()) {
    if (!check.value().as_bool()) failed.emplace_back(check.key());
  }
  return failed;
}

}  // namespace

Task<json::object> Readiness::report() {
  const model::AdmissionPolicy& policy = configuration_.config().admission.policy;
  const std::chrono::seconds good_for(policy.readiness_cache_sec);
  if (!last_ || Clock::now() - asked_ >= good_for) {
    json::object report;
    if (policy.required) {
      report = co_await strict_report();
    } else {
      report = co_await standard_report();
    }
    last_ = std::move(report);
    asked_ = Clock::now();
  }
  co_return *last_;
}

Task<json::object> Readiness::standard_report() {
  const std::string refusal = configuration_.backend_refusal(backend_.backend_name());
  const backend::BackendStatus status = co_await backend_.status();
  const bool available = refusal.empty() && status.available;
  json::object backend{{"name", nullptr}, {"available", available}};
  if (refusal.empty()) backend["name"] = backend_.backend_name();
  if (!available) backend["reason"] = refusal.empty() ? status.reason : refusal;
  co_return json::object{{"ready", available},
                         {"mode", "standard"},
                         {"backend", std::move(backend)},
                         {"checks", {{"backend_available", available}}}};
}

Task<json::object> Readiness::strict_report() {
  const model::BoxConfig& config = configuration_.config();
  const model::AdmissionPolicy& policy = config.admission.policy;
  const std::string refusal = configuration_.backend_refusal(backend_.backend_name());
  const backend::BackendStatus status = co_await backend_.status();
  StorageReadiness storage;
  if (settings_.storage) storage = co_await settings_.storage();
  const bool soft = settings_.unsafe_soft_limits;
  const model::IsolationReport& layers = status.isolation;
  json::object details{
      {"available", status.available},
      {"cgroup_v2", in_force(layers, {Layer::memory_limit, Layer::pids_limit, Layer::cpu_limit})},
      {"namespace_isolation",
       in_force(layers, {Layer::user_namespace, Layer::pid_namespace, Layer::ipc_namespace,
                         Layer::uts_namespace, Layer::cgroup_namespace})},
      {"mount_isolation",
       in_force(layers, {Layer::mount_namespace, Layer::proc_masks, Layer::own_inodes})},
      {"network_isolation", in_force(layers, {Layer::network})},
      {"hard_workspace_quota", storage.workspaces},
      {"hard_skill_storage_quota", storage.skills},
      // What is shown read-only takes no room that a box could choose: artifacts are copied up to a
      // limit, and a box writes to none of them.
      {"hard_read_only_mount_quota", in_force(layers, {Layer::mount_namespace})},
      {"bounded_ephemeral_storage", in_force(layers, {Layer::bounded_storage})},
      {"inode_quota", storage.inodes}};
  const auto detail = [&](const char* name) { return details.at(name).as_bool(); };
  json::object checks{
      {"configuration", config.admission.configuration_error.empty()},
      {"required_backend", backend_.backend_name() == policy.required_backend && refusal.empty()},
      {"workspace_mount", has_workspace(configuration_)},
      {"backend_available", status.available},
      {"cgroup_v2", detail("cgroup_v2")},
      {"namespace_isolation", detail("namespace_isolation")},
      {"mount_isolation", detail("mount_isolation")},
      {"network_isolation", detail("network_isolation")},
      {"hard_workspace_quota", soft || detail("hard_workspace_quota")},
      // Hosts before 0.7 know the first of these two, hosts since the second.
      {"hard_skill_storage_quota", soft || detail("hard_skill_storage_quota")},
      {"hard_read_only_mount_quota", soft || detail("hard_read_only_mount_quota")},
      {"bounded_ephemeral_storage", soft || detail("bounded_ephemeral_storage")},
      {"inode_quota", soft || detail("inode_quota")},
      {"session_cap", policy.max_sessions <= 1},
      {"managed_process_cap", policy.max_managed_processes == 0}};
  const bool ready = std::all_of(checks.begin(), checks.end(),
                                 [](const auto& check) { return check.value().as_bool(); });
  json::object report{{"ready", ready},
                      {"mode", "grant_enforced"},
                      {"backend",
                       {{"name", backend_.backend_name()},
                        {"available", status.available},
                        {"details", std::move(details)}}},
                      {"checks", std::move(checks)},
                      {"unsafe_soft_storage_limits", soft}};
  std::string error = config.admission.configuration_error;
  if (error.empty()) error = !status.available ? status.reason : !soft ? storage.reason : "";
  if (!ready && !error.empty()) report["error"] = error;
  co_return report;
}

Task<json::object> Readiness::backend_info() {
  json::object known = co_await report();
  json::object info;
  const json::object& backend = known.at("backend").as_object();
  info["name"] = backend.at("name");
  if (known.at("mode") == "standard") {
    info["available"] = backend.at("available");
    if (const json::value* reason = backend.if_contains("reason")) info["reason"] = *reason;
    co_return info;
  }
  info["available"] = known.at("ready");
  info["readiness"] = std::move(known);
  co_return info;
}

Task<void> Readiness::check() {
  const json::object known = co_await report();
  if (known.at("ready").as_bool()) co_return;
  throw Error(ErrorCode::not_ready, str("Managed sandbox isolation is not ready (failed checks: ",
                                        join(failed_checks(known), ", "), ")"));
}

void Readiness::check_backend() const {
  const std::string refusal = configuration_.backend_refusal(backend_.backend_name());
  if (!refusal.empty()) throw Error(ErrorCode::backend_unavailable, refusal);
}

}  // namespace caisson::api
