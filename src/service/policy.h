#pragma once
#include <boost/json/object.hpp>
#include <optional>
#include <string>

#include "model/config.h"
#include "model/profile.h"

namespace caisson::service {

// Who asks for a box, and how.
struct Caller {
  // A profile that the caller names; none: the operator's.
  std::optional<std::string> profile = {};
  // How its requests are read.
  model::Leniency leniency = model::Leniency::lenient;
};

// What an operator decides about boxes, for every way into Caisson: REST, LangBot's hosts and the
// command line ask here and get the same answer to the same request.
class Policy {
 public:
  // `box` is the operator's own configuration, without what hosts lay over it.
  explicit Policy(const model::BoxConfig& box);

  // The request with all that the operator decides: the profile's locks, its defaults, the image
  // and the quota for who names none. Valid, and with the names of fields that came out other than
  // the caller asked. Throws validation_error, and backend_unavailable when there are to be no
  // boxes (`box.enabled`).
  model::BuiltRequest apply(const Caller& caller, boost::json::object request) const;

  // Whether commands of this caller have a longest time. The default profile has one for callers
  // that name it; where nobody chose a profile, a caller may take as long as it asks for.
  bool limits_time(const Caller& caller) const;
  std::string profile_name(const Caller& caller) const {
    return caller.profile.value_or(defaults_.profile.name);
  }

 private:
  bool enabled_;
  model::RequestDefaults defaults_;
};

}  // namespace caisson::service
