#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/object_reader.h"

// What the readers of the configuration's trees share.
namespace caisson::model {

// Text that may be left out or null; trimmed.
std::string text_or(ObjectReader& reader, std::string_view name, const std::string& fallback);

// A list, or one text with commas, as environment variables bring it; blanks are dropped.
std::vector<std::string> read_list(ObjectReader& reader, std::string_view name);

// The `caisson` tree.
DaemonConfig read_daemon(ObjectReader reader);
boost::json::object to_json(const DaemonConfig& daemon);

}  // namespace caisson::model
