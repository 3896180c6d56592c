#include "api/rpc/runtime.h"

#include <algorithm>

#include "api/rpc/envelope.h"
#include "api/rpc/skills.h"
#include "async/sleep.h"
#include "base/beneath.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "model/timestamp.h"

namespace caisson::api::rpc {

namespace json = boost::json;

namespace {

constexpr auto kHouseRound = std::chrono::seconds(5);
constexpr const char* kSkillsMount = "/workspace/.skills/";

}  // namespace

Runtime::Runtime(const boost::asio::any_io_executor& executor, const Services& services,
                 service::BoxConfiguration& configuration, Readiness& readiness,
                 RuntimeSettings settings)
    : services_(services),
      configuration_(configuration),
      readiness_(readiness),
      settings_(std::move(settings)),
      door_(settings_.door),
      admission_(configuration.config().admission),
      names_(services_.sessions),
      skills_(executor),
      disk_(executor),
      tasks_(executor) {
  // Sessions that outlived a daemon tell how far their workspaces have come.
  for (const session::SessionView& view : services_.sessions.list()) {
    const auto placement = session::find_placement(view.info.session_id);
    if (!placement) continue;
    const auto known = fence_.find(placement->name_space).value_or(0);
    if (placement->generation > known) {
      fence_.advance(placement->name_space, placement->generation, max_records());
    }
  }
}

void Runtime::start() {
  tasks_.spawn("expire grants", run_housekeeping());
}

Task<void> Runtime::stop() {
  co_await tasks_.stop();
}

std::size_t Runtime::max_records() const {
  return static_cast<std::size_t>(configuration_.config().limits.max_admission_records);
}

Task<void> Runtime::enter(session::Tenant tenant, bool needs_admission) {
  if (needs_admission && admission_.required()) {
    co_await expire_grants();
    co_await readiness_.check();
    admission_.check(tenant, model::now());
  }
  const std::string name_space = workspace_namespace(tenant);
  if (fence_.advance(name_space, tenant.generation, max_records())) {
    co_await remove_others(name_space, tenant.generation);
  }
}

Task<void> Runtime::leave(session::Tenant tenant) {
  const std::string name_space = workspace_namespace(tenant);
  const std::int64_t highest = fence_.find(name_space).value_or(tenant.generation);
  if (highest != tenant.generation) co_await remove_others(name_space, highest);
  fence_.check(name_space, tenant.generation);
}

Task<void> Runtime::remove_others(std::string name_space, std::int64_t generation) {
  co_await services_.sessions.remove_all([&](const std::string& id) {
    const auto placement = session::find_placement(id);
    return placement && placement->name_space == name_space && placement->generation != generation;
  });
}

Task<void> Runtime::remove_workspace(std::string name_space) {
  co_await services_.sessions.remove_all([&](const std::string& id) {
    const auto placement = session::find_placement(id);
    return placement && placement->name_space == name_space;
  });
}

void Runtime::initialise(const json::object& submitted, service::BoxConfiguration::Sender sender) {
  if (settings_.accepts_mount_roots) sender.roots = service::BoxConfiguration::Roots::any;
  try {
    configuration_.apply(submitted, sender, services_.sessions.status().sessions > 0);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::mount_refused) throw;
    throw Fault("ValueError", error.what());
  }
  admission_.set_settings(configuration_.config().admission);
  readiness_.forget();
}

Task<model::AdmissionGrant> Runtime::install(model::AdmissionGrant grant) {
  const session::Admission::Installed installed =
      admission_.install(grant, model::now(), max_records());
  const std::string name_space =
      session::workspace_namespace(grant.instance_uuid, grant.workspace_uuid);
  if (fence_.advance(name_space, installed.grant.execution_generation, max_records())) {
    co_await remove_others(name_space, installed.grant.execution_generation);
  }
  const bool all = installed.sessions == session::Admission::Sessions::end_all;
  const std::string canonical = admission_.policy().logical_session_id;
  co_await services_.sessions.remove_all([&](const std::string& id) {
    const auto placement = session::find_placement(id);
    return placement && placement->name_space == name_space &&
           (all || placement->name != canonical);
  });
  co_return installed.grant;
}

Task<void> Runtime::revoke(model::AdmissionRevocation revocation) {
  admission_.revoke(revocation, max_records());
  co_await remove_workspace(
      session::workspace_namespace(revocation.instance_uuid, revocation.workspace_uuid));
}

Task<model::BoxRequest> Runtime::admit(HostRequest request, session::Tenant tenant) {
  const std::string name_space = workspace_namespace(tenant);
  const std::filesystem::path workspace = configuration_.tenant_workspace(name_space);
  model::BoxRequest admitted =
      session::admitted_request(std::move(request.asked), admission_.policy(), workspace.native());
  make_directories(workspace.native());
  const std::int64_t quota = admission_.policy().workspace_quota_mb;
  if (settings_.limit_storage && quota > 0) co_await settings_.limit_storage(workspace, quota);
  if (request.skill_name) {
    const std::optional<std::string> package =
        co_await find_package(*this, tenant, *request.skill_name);
    if (!package) {
      throw Error(ErrorCode::admission_refused,
                  "Managed sandbox skill is unavailable in this Workspace");
    }
    admitted.box.extra_mounts.push_back({.host_path = *package,
                                         .mount_path = str(kSkillsMount, *request.skill_name),
                                         .mode = model::MountMode::ro});
  }
  co_return admitted;
}

Task<void> Runtime::expire_grants() {
  for (const std::string& name_space : admission_.expire(model::now())) {
    log::info("sandbox admission grant expired", "workspace", name_space);
    co_await remove_workspace(name_space);
  }
}

Task<void> Runtime::run_housekeeping() {
  for (;;) {
    co_await sleep_for(kHouseRound);
    co_await expire_grants();
  }
}

}  // namespace caisson::api::rpc
