#pragma once
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/settings.h"
#include "model/timestamp.h"

namespace caisson::cli {

// What `caisson start` was told about the process, as text.
struct ProcessOptions {
  std::optional<std::string> id;
  std::vector<std::string> env;
  std::optional<std::string> workdir;
  std::optional<std::string> memory;
  std::optional<std::string> restart;
  std::optional<std::string> journal;
  bool hold = false;
  bool tty = false;
};

// The same, judged, as the daemon wants to be told. Faults name the option. Everything must be
// UTF-8, because that is how it travels.
boost::json::object plan_process(const ProcessOptions& options,
                                 const std::vector<std::string>& command,
                                 const Environment& environment);

// "4194304", "512K", "16M" and "1G", in bytes.
std::int64_t parse_bytes(std::string_view option, std::string_view text);

std::uint64_t parse_offset(std::string_view option, std::string_view text);

// Where output begins: at the offset of a byte, or at a moment.
struct Since {
  std::optional<std::uint64_t> offset;
  std::optional<model::Timestamp> time;
  bool operator==(const Since&) const = default;
};
// A number is an offset, "90s", "10m", "2h" and "1d" are so long ago, all else is a time with its
// zone in ISO 8601.
Since parse_since(std::string_view text, model::Timestamp now);

}  // namespace caisson::cli
