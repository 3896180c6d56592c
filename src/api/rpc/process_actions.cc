#include <utility>

#include "api/rpc/action.h"
#include "model/managed_process.h"
#include "model/timestamp.h"
#include "session/processes.h"

// Actions on the long-lived processes of sessions.
namespace caisson::api::rpc {

namespace json = boost::json;

namespace {

// Only a grant for processes lets a managed workspace have them.
void check_admission(const Call& call) {
  if (!call.domain.tenant() || !call.runtime.admission().required()) return;
  call.runtime.admission().check_processes(*call.domain.tenant(), model::now());
}

std::string process_of(const Call& call) {
  return text_or(call.data, "process_id", std::string(model::kDefaultProcessId));
}

}  // namespace

json::object process_json(const Domain& domain, const session::ManagedProcess& process) {
  model::ManagedProcessInfo info = process.info();
  info.session_id = domain.logical(info.session_id);
  if (info.status == model::ProcessStatus::restarting) {
    info.status = model::ProcessStatus::running;
  }
  // LangBot's own shows lines, without the newline of the last.
  const std::size_t end = info.stderr_preview.find_last_not_of(" \t\r\n\v\f");
  info.stderr_preview.resize(end == std::string::npos ? 0 : end + 1);
  return model::to_json(info);
}

Task<json::object> start_process(Call call) {
  check_admission(call);
  std::string id = session_of(call);
  // LangBot's own reads standard output only while a client is attached: a process that writes more
  // than fits waits, and loses nothing.
  model::ManagedProcessSpec spec = model::read_managed_process_spec(
      required_field(call.data, "spec"), {}, model::OutputPolicy::hold);
  co_await call.runtime.services().sessions.wait_for(id);
  const auto process =
      co_await call.runtime.services().processes.start(std::move(id), std::move(spec));
  co_return process_json(call.domain, *process);
}

Task<json::object> get_process(Call call) {
  check_admission(call);
  const std::string id = session_of(call);
  co_await call.runtime.services().sessions.wait_for(id);
  co_return process_json(call.domain, *call.runtime.services().processes.get(id, process_of(call)));
}

Task<json::object> stop_process(Call call) {
  check_admission(call);
  std::string id = session_of(call);
  const std::string process = process_of(call);
  co_await call.runtime.services().sessions.wait_for(id);
  co_await call.runtime.services().processes.remove(std::move(id), process);
  co_return json::object{{"stopped", process}};
}

}  // namespace caisson::api::rpc
