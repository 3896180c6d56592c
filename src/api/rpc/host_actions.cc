#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "api/rpc/action.h"
#include "api/rpc/envelope.h"
#include "base/beneath.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/admission.h"
#include "model/limits.h"
#include "model/timestamp.h"
#include "session/tenancy.h"

// Actions that are about the host or the daemon, not about a session.
namespace caisson::api::rpc {

namespace json = boost::json;

namespace {

constexpr std::string_view kMarkerPrefix = ".langbot-box-volume-probe-";
constexpr std::size_t kMarkerDigits = 32;
constexpr std::size_t kMaxMarker = 1024;

[[noreturn]] void refuse_marker(const std::string& sentence) {
  throw Error(ErrorCode::not_ready, sentence);
}

bool is_marker(std::string_view name) {
  if (!name.starts_with(kMarkerPrefix)) return false;
  name.remove_prefix(kMarkerPrefix.size());
  return name.size() == kMarkerDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string read_marker(const std::filesystem::path& workspace, const std::string& name) {
  constexpr const char* kUnreadable = "Box Runtime cannot read the Core shared Workspace probe";
  try {
    const UniqueFd directory = open_absolute(workspace.native(), O_PATH | O_DIRECTORY);
    check_syscall(workspace.native(), directory.get());
    const UniqueFd file = open_file_at(directory.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat status {};
    check_syscall(name, ::fstat(file.get(), &status));
    if (!S_ISREG(status.st_mode)) refuse_marker(kUnreadable);
    std::string content = read_all(file.get(), name, kMaxMarker);
    if (content.empty()) refuse_marker(kUnreadable);
    return content;
  } catch (const Error&) {
    refuse_marker(kUnreadable);
  }
}

// A grant or revocation is about the instance that may speak here, and comes from it.
template <typename Paper>
void check_instance(const Call& call, const Paper& paper, std::string_view what) {
  const std::string& trusted = call.runtime.door().trusted_instance();
  if (paper.instance_uuid == trusted && call.instance == trusted) return;
  throw Error(ErrorCode::forbidden, str(what, " does not match the trusted instance"));
}

json::object limits_json(const model::Limits& limits) {
  json::object all = model::to_json(limits);
  json::object shown;
  for (const char* name : {"max_sessions", "max_managed_processes", "max_completed_processes",
                           "max_admission_records", "max_rpc_file_bytes"}) {
    shown[name] = all.at(name);
  }
  return shown;
}

// Whether a session counts for the asker: its workspace's, of whatever generation, or that of no
// workspace.
bool is_of_workspace(const Call& call, const std::string& session_id) {
  const std::optional<session::Placement> placement = session::find_placement(session_id);
  if (!call.domain.tenant()) return !placement;
  return placement && placement->name_space == workspace_namespace(*call.domain.tenant());
}

// How many sessions the asker may have, has, and could make now. Without a grant, where one is
// needed, it is none.
json::object capacity_json(const Call& call, std::int64_t used) {
  const std::int64_t all = call.runtime.configuration().config().limits.max_sessions;
  const session::RegistryStatus status = call.runtime.services().sessions.status();
  std::int64_t limit = all;
  if (call.domain.tenant() && call.runtime.admission().required()) {
    limit =
        std::min(limit, call.runtime.admission().max_sessions(*call.domain.tenant(), model::now()));
  }
  const auto taken = static_cast<std::int64_t>(status.sessions + status.returning +
                                               status.being_made + status.being_closed);
  const std::int64_t remaining = std::max<std::int64_t>(0, std::min(limit - used, all - taken));
  return {{"limit", limit}, {"used", used}, {"remaining", remaining}};
}

}  // namespace

Task<json::object> ping(Call) {
  co_return json::object();
}

Task<json::object> cancel_action(Call call) {
  const json::value* sequence = call.data.if_contains("seq_id");
  if (sequence == nullptr || !sequence->is_int64()) {
    throw Fault("ValueError", "Cancellation requires an integer seq_id");
  }
  const bool found = call.cancel_other(std::to_string(sequence->get_int64()));
  co_return json::object{{"cancelled", found}};
}

// No answer of ours comes in pieces that could be acknowledged.
Task<json::object> acknowledge_stream(Call call) {
  for (const char* name : {"seq_id", "index"}) {
    const json::value* number = call.data.if_contains(name);
    if (number != nullptr && number->is_int64()) continue;
    throw Fault("ValueError", "Stream acknowledgement requires integer sequence and index");
  }
  co_return json::object{{"accepted", false}};
}

Task<json::object> take_file_chunk(Call call) {
  const std::int64_t most = call.runtime.configuration().config().limits.max_rpc_file_bytes;
  call.transfers.add(call.data, static_cast<std::uint64_t>(most));
  co_return json::object();
}

Task<json::object> initialise(Call call) {
  using Roots = service::BoxConfiguration::Roots;
  call.runtime.initialise(call.data, {.roots = call.shown_token ? Roots::any : Roots::operators,
                                      .is_parent = call.from_parent});
  co_return json::object{{"initialized", true}};
}

Task<json::object> health(Call call) {
  if (!call.runtime.admission().required()) {
    co_return co_await call.runtime.readiness().backend_info();
  }
  json::object report = co_await call.runtime.readiness().report();
  if (!report.at("ready").as_bool()) {
    throw Error(ErrorCode::not_ready, "managed sandbox isolation is not ready");
  }
  co_return report;
}

Task<json::object> backend_info(Call call) {
  co_return co_await call.runtime.readiness().backend_info();
}

Task<json::object> status(Call call) {
  json::object backend = co_await call.runtime.readiness().backend_info();
  const Services& services = call.runtime.services();
  std::size_t sessions = 0;
  std::size_t processes = 0;
  std::int64_t used = 0;
  for (const session::SessionView& view : services.sessions.list()) {
    if (is_of_workspace(call, view.info.session_id)) ++used;
    // Hosts of old expect to be told of everything.
    if (call.domain.tenant() && !call.domain.owns(view.info.session_id)) continue;
    ++sessions;
    const auto all = services.processes.list(view.info.session_id);
    processes += static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [](const auto& process) { return process->running(); }));
  }
  co_return json::object{{"backend", std::move(backend)},
                         {"active_sessions", sessions},
                         {"managed_processes", processes},
                         {"session_ttl_sec", services.sessions.settings().ttl.count()},
                         {"limits", limits_json(call.runtime.configuration().config().limits)},
                         {"capacity", capacity_json(call, used)}};
}

Task<json::object> install_grant(Call call) {
  model::AdmissionGrant grant = model::read_admission_grant(call.data);
  check_instance(call, grant, "Sandbox admission grant");
  const model::AdmissionGrant installed = co_await call.runtime.install(std::move(grant));
  json::object answer{{"installed", true}};
  for (const auto& field : model::to_json(installed)) {
    if (field.key() != "instance_uuid") answer[field.key()] = field.value();
  }
  co_return answer;
}

Task<json::object> revoke_grant(Call call) {
  model::AdmissionRevocation revocation = model::read_admission_revocation(call.data);
  check_instance(call, revocation, "Sandbox admission revocation");
  json::object answer{{"revoked", true},
                      {"workspace_uuid", revocation.workspace_uuid},
                      {"entitlement_revision", revocation.entitlement_revision}};
  co_await call.runtime.revoke(std::move(revocation));
  co_return answer;
}

Task<json::object> verify_shared_workspace(Call call) {
  const std::string name = text_or(call.data, "marker_name", "");
  if (!is_marker(name)) refuse_marker("Invalid Box shared Workspace probe basename");
  const std::optional<std::filesystem::path> workspace =
      call.runtime.configuration().default_workspace();
  if (!workspace) refuse_marker("box.local.default_workspace is not set");
  const std::string content = read_marker(*workspace, name);
  co_return json::object{
      {"marker_name", name}, {"sha256", sha256_hex(content)}, {"size", content.size()}};
}

// A host ends what is its own: tenants' sessions, or those of hosts of old.
Task<json::object> shut_down(Call call) {
  const bool legacy = call.legacy;
  co_await call.runtime.services().sessions.remove_all([legacy](const std::string& id) {
    return session::find_placement(id).has_value() != legacy;
  });
  co_return json::object();
}

}  // namespace caisson::api::rpc
