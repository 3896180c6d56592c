#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>

namespace caisson::model {

// How much one daemon holds at a time: `box.limits`.
struct Limits {
  std::int64_t max_sessions = 64;
  std::int64_t max_managed_processes = 64;
  std::int64_t max_completed_processes = 256;
  std::int64_t max_admission_records = 100'000;
  std::int64_t max_rpc_file_bytes = 20'971'520;
  std::int64_t completed_process_retention_sec = 300;
  bool operator==(const Limits&) const = default;
};

// `current` with the fields of `value` changed, or an error and no change at all. Integers only, no
// coercion: "box.limits.max_sessions must be an integer", "... must be between 0 and 5000". Unknown
// fields are ignored; the section also holds limits that are not the daemon's.
Limits read_limits(const boost::json::value& value, const Limits& current = {},
                   const std::string& path = "box.limits");

boost::json::object to_json(const Limits& limits);

}  // namespace caisson::model
