#pragma once
#include <string>
#include <string_view>

namespace caisson {

// Lexical normal form of an absolute path: "." and ".." resolved, no double or trailing slashes,
// never above "/". "/workspace/../x/" -> "/x". The caller has checked that the path starts with
// '/'.
std::string normalise_path(std::string_view absolute);

// Whether `path` is `ancestor` or lies below it. Both are in normal form.
bool is_within(std::string_view path, std::string_view ancestor);

}  // namespace caisson
