#include "session/kept_process.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <exception>

#include "base/error.h"
#include "base/str.h"
#include "session/kept_json.h"

namespace caisson::session {

namespace json = boost::json;

namespace {

constexpr int kVersion = 1;
constexpr const char* kPrefix = "process/";

json::value end_value(const std::optional<ProcessEnd>& end) {
  if (!end) return nullptr;
  json::object object{{"at", microseconds(end->at)},
                      {"oom", end->oom},
                      {"cpu_us", end->cpu_us},
                      {"peak_memory_bytes", end->peak_memory_bytes},
                      {"reason", end->reason}};
  if (end->exit_code) object["exit_code"] = *end->exit_code;
  if (end->signal) object["signal"] = *end->signal;
  return object;
}

std::optional<ProcessEnd> read_end(const json::value& value) {
  if (value.is_null()) return std::nullopt;
  const json::object& object = value.as_object();
  ProcessEnd end{.at = timestamp(object.at("at")),
                 .exit_code = {},
                 .signal = {},
                 .oom = object.at("oom").as_bool(),
                 .cpu_us = object.at("cpu_us").to_number<std::int64_t>(),
                 .peak_memory_bytes = object.at("peak_memory_bytes").to_number<std::uint64_t>(),
                 .reason = std::string(object.at("reason").as_string())};
  if (const json::value* code = object.if_contains("exit_code")) {
    end.exit_code = code->to_number<std::int64_t>();
  }
  if (const json::value* signal = object.if_contains("signal")) {
    end.signal = signal->to_number<int>();
  }
  return end;
}

// Absent in what versions wrote that did not reserve.
ReservedOffsets read_reserved(const json::object& object) {
  const json::value* const value = object.if_contains("reserved");
  if (value == nullptr) return {};
  return {.out = value->at(0).to_number<std::uint64_t>(),
          .err = value->at(1).to_number<std::uint64_t>()};
}

ProcessPhase read_phase(const json::value& value) {
  const int phase = value.to_number<int>();
  if (phase < 0 || phase > static_cast<int>(ProcessPhase::ended)) {
    throw Error(ErrorCode::protocol_error, "it is in no known phase");
  }
  return static_cast<ProcessPhase>(phase);
}

}  // namespace

std::string kept_process_name(const std::string& directory) {
  return str(kPrefix, directory);
}

bool is_kept_process(const std::string& name) {
  return name.starts_with(kPrefix);
}

std::string to_text(const KeptProcess& process) {
  return json::serialize(json::object{{"version", kVersion},
                                      {"session_id", process.session_id},
                                      {"spec", model::to_json(process.spec)},
                                      {"directory", process.directory},
                                      {"phase", static_cast<int>(process.phase)},
                                      {"id", process.id},
                                      {"pid", process.pid},
                                      {"started_at", microseconds(process.started_at)},
                                      {"restarts", process.restarts},
                                      {"end", end_value(process.end)},
                                      {"reserved", {process.reserved.out, process.reserved.err}}});
}

KeptProcess read_kept_process(const std::string& text) {
  try {
    const json::value value = json::parse(text);
    const json::object& object = value.as_object();
    if (object.at("version").to_number<int>() != kVersion) {
      throw Error(ErrorCode::protocol_error, "it was written by another version");
    }
    return {.session_id = std::string(object.at("session_id").as_string()),
            .spec = model::read_managed_process_spec(object.at("spec")),
            .directory = std::string(object.at("directory").as_string()),
            .phase = read_phase(object.at("phase")),
            .id = object.at("id").to_number<std::uint64_t>(),
            .pid = object.at("pid").to_number<std::int64_t>(),
            .started_at = timestamp(object.at("started_at")),
            .restarts = object.at("restarts").to_number<std::uint64_t>(),
            .end = read_end(object.at("end")),
            .reserved = read_reserved(object)};
  } catch (const std::exception& error) {
    throw Error(ErrorCode::protocol_error, str("a kept process cannot be read: ", error.what()));
  }
}

}  // namespace caisson::session
