#include <boost/json/value_from.hpp>
#include <optional>
#include <utility>

#include "api/rpc/action.h"
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

// Hosts since 0.7 refuse what they do not know. Those before always say which skill they mean, and
// ignore it; hosts of old do so, too.
model::Leniency leniency_of(const Call& call) {
  const bool older = !call.domain.tenant() || call.data.contains("skill_name");
  return older ? model::Leniency::lenient : model::Leniency::strict;
}

// The box that the call is about, under the name that the registry knows. The tenant's grant, where
// it needs one, has been found good.
Task<model::BoxSpec> box_of(const Call& call, model::BoxSpec spec) {
  call.runtime.readiness().check_backend();
  const std::optional<session::Tenant>& tenant = call.domain.tenant();
  const std::string name = spec.session_id;
  if (tenant && call.runtime.admission().required()) {
    model::BoxSpec admitted = co_await call.runtime.admit(std::move(spec), *tenant);
    admitted.session_id =
        call.domain.physical(call.runtime.admission().policy().logical_session_id);
    co_return admitted;
  }
  spec.session_id = call.domain.physical(name);
  call.runtime.names().claim(spec.session_id, name);
  co_return spec;
}

json::object session_json(const Call& call, const session::SessionView& view) {
  json::object object = model::to_json(view.info);
  object["session_id"] = call.domain.logical(view.info.session_id);
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
  request.spec = co_await box_of(call, model::read_exec_request(call.data, leniency_of(call)));
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
  model::BoxSpec spec = co_await box_of(call, model::read_box_spec(call.data, leniency_of(call)));
  const session::SessionView view =
      co_await call.runtime.services().sessions.create(std::move(spec));
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
