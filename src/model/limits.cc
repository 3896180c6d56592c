#include "model/limits.h"

#include <array>
#include <string_view>

#include "base/str.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace {
struct Row {
  std::string_view name;
  std::int64_t Limits::*field;
  std::int64_t least;
  std::int64_t most;
};

constexpr std::array kRows = {
    Row{"max_sessions", &Limits::max_sessions, 0, 5000},
    Row{"max_managed_processes", &Limits::max_managed_processes, 0, 1024},
    Row{"max_completed_processes", &Limits::max_completed_processes, 0, 10'000},
    Row{"max_admission_records", &Limits::max_admission_records, 1, 250'000},
    Row{"max_rpc_file_bytes", &Limits::max_rpc_file_bytes, 1, 104'857'600},
    Row{"completed_process_retention_sec", &Limits::completed_process_retention_sec, 0, 86'400},
};
}  // namespace

Limits read_limits(const boost::json::value& value, const Limits& current,
                   const std::string& path) {
  const boost::json::object* object = value.if_object();
  if (object == nullptr) refuse(str(path, " must be an object"));
  Limits limits = current;
  for (const Row& row : kRows) {
    const boost::json::value* field = object->if_contains(row.name);
    if (field == nullptr) continue;
    if (!field->is_int64() && !field->is_uint64()) {
      refuse(str(path, '.', row.name, " must be an integer"));
    }
    const std::int64_t number = *to_integer(*field);
    if (number < row.least || number > row.most) {
      refuse(str(path, '.', row.name, " must be between ", row.least, " and ", row.most));
    }
    limits.*row.field = number;
  }
  return limits;
}

boost::json::object to_json(const Limits& limits) {
  boost::json::object object;
  for (const Row& row : kRows) object[row.name] = limits.*row.field;
  return object;
}

}  // namespace caisson::model
