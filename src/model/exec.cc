#include "model/exec.h"

#include <algorithm>
#include <boost/json/value_from.hpp>

#include "base/str.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace {
constexpr std::size_t kMaxRequestId = 200;
}

void require_command(const BoxRequest& request) {
  if (request.command.cmd.empty()) refuse("cmd must not be empty");
}

std::string_view to_string(OnTimeout choice) {
  return choice == OnTimeout::end_command ? "end_command" : "end_session";
}

std::string_view to_string(OnDisconnect choice) {
  return choice == OnDisconnect::keep ? "keep" : "cancel";
}

ExecOptions read_exec_options(const boost::json::value& value) {
  ObjectReader reader(value, "");
  ExecOptions options;
  if (reader.has("stdin")) options.input = reader.required_raw_text("stdin");
  options.on_timeout = reader.choice("on_timeout", options.on_timeout,
                                     {OnTimeout::end_session, OnTimeout::end_command});
  if (reader.has("on_disconnect")) {
    options.on_disconnect = reader.choice("on_disconnect", OnDisconnect::cancel,
                                          {OnDisconnect::cancel, OnDisconnect::keep});
  }
  if (reader.has("request_id")) {
    options.request_id = reader.required<std::string>("request_id", Coercion::strict);
    check_request_id(options.request_id, "request_id");
  }
  return options;
}

void check_request_id(std::string_view id, std::string_view where) {
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (id.empty() || id.size() > kMaxRequestId || !std::all_of(id.begin(), id.end(), printable)) {
    refuse(str(where, ": must be 1 to ", kMaxRequestId, " printable ASCII characters"));
  }
  // Below a session's /exec these are another route, or no name of anything.
  if (id == "stream" || id == "." || id == "..") {
    refuse(str(where, ": must not be ", id, ": the result could not be asked for by that name"));
  }
}

std::string_view to_string(ExecStatus status) {
  return status == ExecStatus::timed_out ? "timed_out" : "completed";
}

boost::json::object to_json(const ExecResult& result) {
  return {{"session_id", result.session_id},
          {"backend_name", result.backend_name},
          {"status", to_string(result.status)},
          {"exit_code", boost::json::value_from(result.exit_code)},
          {"stdout", result.out},
          {"stderr", result.err},
          {"duration_ms", result.duration_ms},
          {"signal", boost::json::value_from(result.signal)},
          {"oom", result.oom},
          {"oom_limit_mb", boost::json::value_from(result.oom_limit_mb)},
          {"cpu_ms", result.cpu_ms},
          {"peak_memory_bytes", result.peak_memory_bytes},
          {"stdout_discarded", result.stdout_discarded},
          {"stderr_discarded", result.stderr_discarded},
          {"box_lost", boost::json::value_from(result.box_lost)}};
}

ExecResult read_exec_result(const boost::json::value& value) {
  ObjectReader reader(value, "");
  ExecResult result;
  result.session_id = reader.required<std::string>("session_id");
  result.backend_name = reader.required<std::string>("backend_name");
  reader.required<std::string>("status");
  result.status =
      reader.choice("status", result.status, {ExecStatus::completed, ExecStatus::timed_out});
  result.exit_code = reader.nullable<std::int64_t>("exit_code");
  if (reader.has("stdout")) result.out = reader.required_raw_text("stdout");
  if (reader.has("stderr")) result.err = reader.required_raw_text("stderr");
  result.duration_ms = reader.required<std::int64_t>("duration_ms");
  result.signal = reader.nullable<std::int64_t>("signal");
  result.oom = reader.optional("oom", result.oom);
  result.oom_limit_mb = reader.nullable<std::int64_t>("oom_limit_mb");
  result.cpu_ms = reader.optional("cpu_ms", result.cpu_ms);
  result.peak_memory_bytes = reader.optional("peak_memory_bytes", result.peak_memory_bytes);
  result.stdout_discarded = reader.optional("stdout_discarded", result.stdout_discarded);
  result.stderr_discarded = reader.optional("stderr_discarded", result.stderr_discarded);
  result.box_lost = reader.nullable<std::string>("box_lost");
  return result;
}

}  // namespace caisson::model
