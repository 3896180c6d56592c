#pragma once
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>

#include "model/timestamp.h"

// Moments in what the keeper holds: as numbers, which come back exactly as they were.
namespace caisson::session {

inline std::int64_t microseconds(model::Timestamp time) {
  return time.time_since_epoch().count();
}

inline model::Timestamp timestamp(const boost::json::value& value) {
  return model::Timestamp(std::chrono::microseconds(value.to_number<std::int64_t>()));
}

}  // namespace caisson::session
