#pragma once
#include <boost/json/value.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace caisson::model {

// A moment in UTC, as shown to people and clients; deadlines use base/clock.h instead.
using Timestamp = std::chrono::sys_time<std::chrono::microseconds>;

inline Timestamp now() {
  return std::chrono::time_point_cast<Timestamp::duration>(std::chrono::system_clock::now());
}

// How the text says that it is UTC: LangBot shows "Z" in sessions and "+00:00" in grants.
enum class UtcMark { z, offset };

// "2026-11-15T18:45:33.175222Z"; the fraction is left out when it is zero.
std::string timestamp_text(Timestamp time, UtcMark mark = UtcMark::z);

// What a text or number says about a moment. Without a zone it is no moment.
struct ParsedTimestamp {
  Timestamp time;
  bool has_zone = false;
};

// ISO 8601 with 'T', 't', '_' or a space between date and time, seconds and zone optional; or
// seconds since 1970 (milliseconds beyond 2e10) as a number or a text of digits. nullopt when it is
// neither.
std::optional<ParsedTimestamp> parse_timestamp(std::string_view text);
std::optional<ParsedTimestamp> parse_timestamp(const boost::json::value& value);

}  // namespace caisson::model
