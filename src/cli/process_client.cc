#include "cli/process_client.h"

#include <boost/json/serialize.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/session_exec.h"
#include "net/target.h"

namespace caisson::cli {

namespace json = boost::json;

ProcessName process_name(std::string_view session, std::string_view process) {
  ProcessName name{.session = session_name(session), .process = std::string(process)};
  if (name.process.empty() || name.process == "." || name.process == ".." ||
      !is_utf8(name.process)) {
    throw Error(ErrorCode::validation_error,
                str("process \"", printable(process), "\": this cannot be the id of a process"));
  }
  return name;
}

std::string process_target(const ProcessName& name, std::string_view below) {
  return str(session_target(name.session, "/managed-process/"), net::encode_segment(name.process),
             below);
}

Task<json::object> start_process(DaemonClient& client, ProcessStart start) {
  const std::optional<json::value> session = co_await client.find(session_target(start.session));
  if (session && session->is_object()) fill_in(start.settings, session->get_object());
  co_await client.call("POST", session_target(start.session), json::serialize(start.settings));
  json::value process = co_await client.call(
      "POST", session_target(start.session, "/managed-process"), json::serialize(start.process));
  co_return std::move(process.as_object());
}

}  // namespace caisson::cli
