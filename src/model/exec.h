#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/box_request.h"

namespace caisson::model {

// The request of an exec says which box as well as what to run in it. "cmd must not be empty".
void require_command(const BoxRequest& request);

// What a timeout ends: as with LangBot the session, or only the command.
enum class OnTimeout { end_session, end_command };
// What becomes of a command whose caller goes away before it has ended.
enum class OnDisconnect { cancel, keep };
std::string_view to_string(OnTimeout choice);
std::string_view to_string(OnDisconnect choice);

// What an exec may say besides: fields of our own, which LangBot does not send.
struct ExecOptions {
  std::string input;  // "stdin"
  OnTimeout on_timeout = OnTimeout::end_session;
  // None: a command with a request id is kept, any other is cancelled.
  std::optional<OnDisconnect> on_disconnect = std::nullopt;
  std::string request_id;  // empty: none
  bool kept_without_caller() const {
    return on_disconnect.value_or(request_id.empty() ? OnDisconnect::cancel : OnDisconnect::keep) ==
           OnDisconnect::keep;
  }
  bool operator==(const ExecOptions&) const = default;
};
ExecOptions read_exec_options(const boost::json::value& value);

// The name that a caller gives to one exec, so that it can be asked for again and is not run twice:
// 1 to 200 printable ASCII characters. Throws validation_error, with `where` it was found in front.
void check_request_id(std::string_view id, std::string_view where);

enum class ExecStatus { completed, timed_out };
std::string_view to_string(ExecStatus status);

// How a command ended and what it wrote. The first seven fields are LangBot's; the others are ours.
struct ExecResult {
  std::string session_id;
  std::string backend_name;
  ExecStatus status = ExecStatus::completed;
  std::optional<std::int64_t> exit_code;  // none when timed out; 128+n when a signal ended it
  std::string out;                        // "stdout" in JSON, which is a macro in C
  std::string err;
  std::int64_t duration_ms = 0;
  std::optional<std::int64_t> signal;        // the signal that ended the command itself
  bool oom = false;                          // the kernel killed a process of the box for memory
  std::optional<std::int64_t> oom_limit_mb;  // the limit it ran into
  std::int64_t cpu_ms = 0;
  std::int64_t peak_memory_bytes = 0;
  std::int64_t stdout_discarded = 0;  // bytes beyond what is kept
  std::int64_t stderr_discarded = 0;
  std::optional<std::string> box_lost;  // the box is gone with the command, and why
  bool operator==(const ExecResult&) const = default;
};

boost::json::object to_json(const ExecResult& result);
ExecResult read_exec_result(const boost::json::value& value);  // what a daemon answered

}  // namespace caisson::model
