#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace caisson::net {

struct Target {
  std::string authority;  // of the absolute form, otherwise empty
  std::vector<std::string> path;
  std::vector<std::pair<std::string, std::string>> query;
};

// What the target of a request line names. Segments are decoded after the path is divided, so that
// %2F is data. Throws validation_error for everything that two readers could understand in two
// ways: "." and ".." in any spelling, NUL, backslashes, bad escapes, empty inner segments,
// fragments.
Target parse_target(std::string_view method, std::string_view target);

// A segment as it is written in a path: the reverse of the decoding above.
std::string encode_segment(std::string_view segment);

}  // namespace caisson::net
