#pragma once
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace caisson::model {

// One YAML document as JSON, scalars by YAML 1.2's core schema. Throws validation_error with the
// place: "caisson.yaml:3:7: duplicate key \"port\"". Refused are a second document, keys that are
// no text, merge keys, foreign tags, and aliases that would blow the document up. An empty text is
// null.
boost::json::value parse_yaml(std::string_view text, const std::string& file_name);

}  // namespace caisson::model
