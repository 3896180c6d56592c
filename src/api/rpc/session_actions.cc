#include <boost/json/value_from.hpp>
#include <optional>
#include <utility>

#include "api/rpc/action.h"
#include "api/rpc/box_request.h"
#include "api/rpc/envelope.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "model/exec.h"
#include "model/session_info.h"

// Actions on sessions, and commands in them.
namespace caisson::api::rpc {

namespace json = boost::json;

namespace {

HostRequest host_request(const Call& call) {
  return read_host_request(call.runtime.services().policy, call.data,
                           call.domain.tenant().has_value());
}

// The box that the call is about, under the name that the registry knows. The tenant's grant, where
// it needs one, has been found good.
Task<model::BoxRequest> box_of(const Call& call, HostRequest request) {
  call.runtime.readiness().check_backend();
  const std::optional<session::Tenant>& tenant = call.domain.tenant();
  const std::string name = request.asked.session_id;
  if (tenant && call.runtime.admission().required()) {
    model::BoxRequest admitted = co_await call.runtime.admit(std::move(request), *tenant);
    admitted.session_id =
        call.domain.physical(call.runtime.admission().policy().logical_session_id);
    co_return admitted;
  }
  request.asked.session_id = call.domain.physical(name);
  call.runtime.names().claim(request.asked.session_id, name);
  co_return std::move(request.asked);
}

json::object session_json(const Call& call, const session::SessionView& view) {
  const json::object shown = model::to_json(view.info);
  // In the order of LangBot's model, whose image comes first.
  json::object object{{"session_id", call.domain.logical(view.info.session_id)},
                      {"backend_name", shown.at("backend_name")},
                      {"backend_session_id", shown.at("backend_session_id")},
                      {"image", shown.at("image")}};
  for (const auto& [name, value] : shown) object.emplace(name, value);
  object["status"] = view.in_use ? "running" : "idle";
  return object;
}

}  // namespace

std::string session_of(const Call& call) {
  const std::string name = required_text(call.data, "session_id");
  std::string id = call.domain.physical(name);
  if (call.domain.tenant() && call.runtime.admission().required()) {
    if (call.domain.logical(id) != call.runtime.admission().policy().logical_session_id) {
      throw Error(ErrorCode::admission_refused, "Managed sandbox session_id is runtime-owned");
    }
  }
  call.runtime.names().check(id, std::string(trim(name)), call.domain.logical(id));
  return id;
}

Task<json::object> exec(Call call) {
  session::ExecRequest request;
  HostRequest asked = host_request(call);
  model::require_command(asked.asked);
  request.asked = co_await box_of(call, std::move(asked));
  request.cancellation = call.cancellation;
  const model::ExecResult result =
      co_await call.runtime.services().sessions.exec(std::move(request));
  co_return json::object{{"session_id", call.domain.logical(result.session_id)},
                         {"backend_name", result.backend_name},
                         {"status", to_string(result.status)},
                         {"exit_code", json::value_from(result.exit_code)},
                         {"stdout", result.out},
                         {"stderr", result.err},
                         {"duration_ms", result.duration_ms}};
}

Task<json::object> create_session(Call call) {
  HostRequest asked = host_request(call);
  model::BoxRequest request = co_await box_of(call, std::move(asked));
  const session::SessionView view =
      co_await call.runtime.services().sessions.create(std::move(request));
  co_return session_json(call, view);
}

Task<json::object> get_session(Call call) {
  const std::string id = session_of(call);
  const Services& services = call.runtime.services();
  co_await services.sessions.wait_for(id);
  json::object object = session_json(call, services.sessions.get(id));
  json::object processes;
  for (const auto& process : services.processes.list(id)) {
    processes[process->spec().process_id] = process_json(call.domain, *process);
  }
  if (processes.empty()) co_return object;
  const json::value* first = processes.if_contains(model::kDefaultProcessId);
  std::optional<json::value> copy;
  if (first != nullptr) copy = *first;
  object["managed_processes"] = std::move(processes);
  if (copy) object["managed_process"] = std::move(*copy);
  co_return object;
}

Task<json::object> get_sessions(Call call) {
  json::array sessions;
  for (const session::SessionView& view : call.runtime.services().sessions.list()) {
    if (call.domain.owns(view.info.session_id)) sessions.push_back(session_json(call, view));
  }
  co_return json::object{{"sessions", std::move(sessions)}};
}

Task<json::object> delete_session(Call call) {
  json::value asked = required_field(call.data, "session_id");
  std::string id = session_of(call);
  co_await call.runtime.services().sessions.remove(std::move(id));
  co_return json::object{{"deleted", std::move(asked)}};
}

}  // namespace caisson::api::rpc
