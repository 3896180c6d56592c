#pragma once
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caisson::model {

// What a scalar without quotes is: by YAML 1.2's core schema, or its text as it stands (a version
// 1.10 stays "1.10", a name 007 keeps its zeros) unless that says null or nothing.
enum class PlainScalars { core_schema, text };

// One YAML document as JSON. Throws validation_error with the
// place: "caisson.yaml:3:7: duplicate key \"port\"". Refused are a second document, keys that are
// no text, merge keys, foreign tags, and aliases that would blow the document up. An empty text is
// null.
boost::json::value parse_yaml(std::string_view text, const std::string& file_name,
                              PlainScalars scalars = PlainScalars::core_schema);

// A block mapping of texts, one line or more each, in this order, with a newline at the end. Texts
// are quoted where a reader of YAML 1.1 or 1.2 would take them for something else, in the style
// that PyYAML chooses; lines are not folded, and characters that print stay as they are.
std::string write_yaml(const std::vector<std::pair<std::string, std::string>>& texts);

}  // namespace caisson::model
