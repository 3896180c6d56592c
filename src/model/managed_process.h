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

class ObjectReader;

inline constexpr std::string_view kDefaultProcessId = "default";

// When a process is started again that has ended by itself.
enum class Restart { never, on_failure, always };
std::string_view to_string(Restart restart);

// What happens to standard output when more of it is unread than is kept: the oldest bytes go, or
// the process waits.
enum class OutputPolicy { release, hold };
std::string_view to_string(OutputPolicy policy);

// A long-lived process to start in a session's box.
struct ManagedProcessSpec {
  std::string process_id{kDefaultProcessId};
  std::string command;
  std::vector<std::string> args;
  std::map<std::string, std::string> env;
  std::string cwd = "/workspace";
  std::int64_t memory_mb = 0;  // above 0: a limit of its own; otherwise the session's
  // Ours, unknown to LangBot.
  Restart restart = Restart::never;
  std::int64_t journal_bytes = 16 << 20;  // kept of each output stream
  OutputPolicy overflow = OutputPolicy::release;
  bool tty = false;  // a terminal instead of pipes: one stream, and its size
  std::int64_t rows = 24;
  std::int64_t columns = 80;
  bool operator==(const ManagedProcessSpec&) const = default;
};

// `restarting`: it has ended, and is about to be started again.
enum class ProcessStatus { running, restarting, exited };
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

// Unknown fields are ignored. `path` names the object in messages about its fields' types;
// `overflow` is for a process that says nothing of it.
ManagedProcessSpec read_managed_process_spec(const boost::json::value& value,
                                             const std::string& path = {},
                                             OutputPolicy overflow = OutputPolicy::release);

// Fields of requests about a process: the number of a signal; rows or columns of a terminal.
int read_signal(ObjectReader& reader, std::string_view name);
std::uint16_t read_terminal_size(ObjectReader& reader, std::string_view name,
                                 std::optional<std::int64_t> fallback = {});

// The part of the description that follows from the spec.
ManagedProcessInfo managed_process_info_of(const ManagedProcessSpec& spec);

boost::json::object to_json(const ManagedProcessSpec& spec);
boost::json::object to_json(const ManagedProcessInfo& info);
ManagedProcessInfo read_managed_process_info(const boost::json::value& value);

}  // namespace caisson::model
