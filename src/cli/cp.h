#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace caisson::cli {

// One side of a copy.
struct Place {
  std::optional<std::string> session;  // none: a path of ours, or "-"
  std::string path;                    // in a box: absolute, or below the workspace
  bool operator==(const Place&) const = default;
};

// "NAME:PATH", else a path of ours. What begins with "/", "./" or "../" is always ours. A name may
// contain colons when the path is absolute.
Place parse_place(std::string_view text);

// The last component; "" for "/", and "." and ".." as they are.
std::string base_name(std::string_view path);
std::string parent_path(std::string_view path);  // "/a" of "/a/b", "." of "b"
std::string join_path(std::string_view directory, std::string_view name);

}  // namespace caisson::cli
