#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/timestamp.h"

namespace caisson::model {

inline constexpr std::string_view kDefaultProcessId = "default";

// A long-lived process to start in a session's box.
struct ManagedProcessSpec {
  std::string process_id{kDefaultProcessId};
  std::string command;
  std::vector<std::string> args;
  std::map<std::string, std::string> env;
  std::string cwd = "/workspace";
  std::int64_t memory_mb = 0;  // above 0: a limit of its own; otherwise the session's
  bool operator==(const ManagedProcessSpec&) const = default;
};

enum class ProcessStatus { running, exited };
std::string_view to_string(ProcessStatus status);

// What callers see of it. Values of its environment are never shown.
struct ManagedProcessInfo {
  std::string session_id;
  std::string process_id{kDefaultProcessId};
  ProcessStatus status = ProcessStatus::running;
  std::string command;
  std::vector<std::string> args;
  std::string cwd;
  std::vector<std::string> env_keys;  // sorted
  bool attached = false;              // a relay holds its stdio
  Timestamp started_at;
  std::optional<Timestamp> exited_at;
  std::optional<std::int64_t> exit_code;
  std::string stderr_preview;  // the end of what it wrote to standard error
  bool operator==(const ManagedProcessInfo&) const = default;
};

// Unknown fields are ignored. `path` names the object in messages about its fields' types.
ManagedProcessSpec read_managed_process_spec(const boost::json::value& value,
                                             const std::string& path = {});

// The part of the description that follows from the spec.
ManagedProcessInfo managed_process_info_of(const ManagedProcessSpec& spec);

boost::json::object to_json(const ManagedProcessSpec& spec);
boost::json::object to_json(const ManagedProcessInfo& info);
ManagedProcessInfo read_managed_process_info(const boost::json::value& value);

}  // namespace caisson::model
