#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "model/box_settings.h"

namespace caisson::model {

inline constexpr std::int64_t kDefaultTimeoutSec = 30;
inline constexpr std::int64_t kMaxTimeoutSec = 1'000'000'000;

// A command to run in a box: the same box runs many.
struct Command {
  std::string cmd = {};
  std::string workdir{kDefaultMountPath};
  std::int64_t timeout_sec = kDefaultTimeoutSec;
  std::map<std::string, std::string> env = {};
  bool operator==(const Command&) const = default;
};

// What `extra_mounts` mean to a box that lives. Artifacts come and go in any case.
enum class Mounting {
  fixed,    // it has just these, or it is not the box that is asked for
  follows,  // it is given just these: hosts before SDK 0.6, which name a skill with every spec
  unsaid,   // whatever it has
};

// What a caller asks for: the session by its name, the box that it is to have, and the command that
// is to run in it, if one is. One that came from read_box_request() has been validated: its paths
// are absolute and normal, its numbers in range, and no string in it contains a NUL.
struct BoxRequest {
  std::string session_id = {};
  BoxSettings box = {};
  Mounting mounting = Mounting::unsaid;
  Command command = {};
  bool operator==(const BoxRequest&) const = default;
};

enum class Leniency {
  lenient,  // unknown fields are ignored: newer hosts send fields that older runtimes do not know
  strict,   // they are refused, and so are paths of mounts that are not in their normal form
};
// One flat object, as clients send it. Fields are read in the order of the table in box_fields.h:
// of several faults the first is reported.
BoxRequest read_box_request(const boost::json::value& value, Leniency leniency = Leniency::lenient);

// The same object again; mounts that nobody said anything of are left out.
boost::json::object to_json(const BoxRequest& request);

// The settings alone, for keeping: what read_box_settings() makes of it is the same to the last
// bit.
boost::json::object to_exact_json(const BoxSettings& settings);
// From an object that may have other fields.
BoxSettings read_box_settings(const boost::json::value& value);

}  // namespace caisson::model
