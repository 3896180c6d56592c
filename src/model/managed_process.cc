#include "model/managed_process.h"

#include <algorithm>
#include <boost/json/value_from.hpp>
#include <csignal>

#include "base/str.h"
#include "base/text.h"
#include "model/box_settings.h"
#include "model/field_rules.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace {
namespace json = boost::json;

constexpr std::int64_t kLeastJournal = 1 << 20;
constexpr std::int64_t kMostJournal = 1 << 30;
constexpr std::int64_t kLargestTerminal = 10'000;

}  // namespace

std::string_view to_string(Restart restart) {
  switch (restart) {
    case Restart::never:
      return "never";
    case Restart::on_failure:
      return "on-failure";
    case Restart::always:
      break;
  }
  return "always";
}

std::string_view to_string(OutputPolicy policy) {
  return policy == OutputPolicy::release ? "release" : "hold";
}

std::string_view to_string(ProcessStatus status) {
  switch (status) {
    case ProcessStatus::running:
      return "running";
    case ProcessStatus::restarting:
      return "restarting";
    case ProcessStatus::exited:
      break;
  }
  return "exited";
}

int read_signal(ObjectReader& reader, std::string_view name) {
  const auto number = reader.required<std::int64_t>(name, Coercion::strict);
  if (number < 1 || number >= NSIG) reader.fail(name, "must be the number of a signal");
  return static_cast<int>(number);
}

std::uint16_t read_terminal_size(ObjectReader& reader, std::string_view name,
                                 std::optional<std::int64_t> fallback) {
  const std::int64_t size =
      fallback ? reader.optional(name, *fallback) : reader.required<std::int64_t>(name);
  if (size < 1 || size > kLargestTerminal) {
    reader.fail(name, str("must be from 1 to ", kLargestTerminal));
  }
  return static_cast<std::uint16_t>(size);
}

ManagedProcessSpec read_managed_process_spec(const json::value& value, const std::string& path,
                                             OutputPolicy overflow) {
  ObjectReader reader(value, path);
  ManagedProcessSpec spec;
  spec.process_id = reader.optional("process_id", spec.process_id);
  check_text(spec.process_id, "process_id");
  spec.command = trim(reader.required<std::string>("command"));
  if (spec.command.empty()) refuse("command must not be empty");
  spec.args = reader.optional("args", spec.args);
  spec.env = reader.optional("env", spec.env);
  check_environment(spec.env, reader.path_of("env"));
  spec.cwd = box_path(reader.optional("cwd", spec.cwd), "cwd");
  spec.memory_mb = std::min(reader.optional("memory_mb", spec.memory_mb), kMaxMegabytes);
  spec.restart = reader.choice("restart", spec.restart,
                               {Restart::never, Restart::on_failure, Restart::always});
  spec.journal_bytes = reader.optional("journal_bytes", spec.journal_bytes);
  if (spec.journal_bytes < kLeastJournal || spec.journal_bytes > kMostJournal) {
    reader.fail("journal_bytes", str("must be from ", kLeastJournal, " to ", kMostJournal));
  }
  spec.overflow = reader.choice("overflow", overflow, {OutputPolicy::release, OutputPolicy::hold});
  spec.tty = reader.optional("tty", spec.tty);
  spec.rows = read_terminal_size(reader, "rows", spec.rows);
  spec.columns = read_terminal_size(reader, "columns", spec.columns);
  return spec;
}

ManagedProcessInfo managed_process_info_of(const ManagedProcessSpec& spec) {
  ManagedProcessInfo info{
      .process_id = spec.process_id, .command = spec.command, .args = spec.args, .cwd = spec.cwd};
  for (const auto& [name, value] : spec.env) info.env_keys.push_back(name);
  return info;
}

json::object to_json(const ManagedProcessSpec& spec) {
  return {{"process_id", spec.process_id},
          {"command", spec.command},
          {"args", json::value_from(spec.args)},
          {"env", json::value_from(spec.env)},
          {"cwd", spec.cwd},
          {"memory_mb", spec.memory_mb},
          {"restart", to_string(spec.restart)},
          {"journal_bytes", spec.journal_bytes},
          {"overflow", to_string(spec.overflow)},
          {"tty", spec.tty},
          {"rows", spec.rows},
          {"columns", spec.columns}};
}

json::object to_json(const ManagedProcessInfo& info) {
  json::object object{{"session_id", info.session_id},
                      {"process_id", info.process_id},
                      {"status", to_string(info.status)},
                      {"command", info.command},
                      {"args", json::value_from(info.args)},
                      {"cwd", info.cwd},
                      {"env_keys", json::value_from(info.env_keys)},
                      {"attached", info.attached},
                      {"started_at", timestamp_text(info.started_at)},
                      {"exited_at", nullptr},
                      {"exit_code", json::value_from(info.exit_code)},
                      {"stderr_preview", info.stderr_preview}};
  if (info.exited_at) object["exited_at"] = timestamp_text(*info.exited_at);
  return object;
}

ManagedProcessInfo read_managed_process_info(const json::value& value) {
  ObjectReader reader(value, "");
  ManagedProcessInfo info;
  info.session_id = reader.required<std::string>("session_id");
  info.process_id = reader.optional("process_id", info.process_id);
  reader.required<std::string>("status");
  info.status =
      reader.choice("status", info.status,
                    {ProcessStatus::running, ProcessStatus::restarting, ProcessStatus::exited});
  info.command = reader.required<std::string>("command");
  info.args = reader.required<ObjectReader::Strings>("args");
  info.cwd = reader.required<std::string>("cwd");
  info.env_keys = reader.required<ObjectReader::Strings>("env_keys");
  info.attached = reader.optional("attached", info.attached);
  info.started_at = required_timestamp(reader, "started_at");
  if (reader.has_value("exited_at")) info.exited_at = required_timestamp(reader, "exited_at");
  info.exit_code = reader.nullable<std::int64_t>("exit_code");
  if (reader.has("stderr_preview"))
    info.stderr_preview = reader.required_raw_text("stderr_preview");
  return info;
}

}  // namespace caisson::model
