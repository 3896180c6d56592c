#pragma once
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace caisson::skill {

// A field of a request as text; nullopt when it is absent or null. Numbers and booleans are taken
// as they are written. Throws validation_error for lists and objects.
std::optional<std::string> field_text(const boost::json::object& data, std::string_view name);

}  // namespace caisson::skill
