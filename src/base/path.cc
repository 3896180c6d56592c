#include "base/path.h"

#include <vector>

namespace caisson {

std::string normalise_path(std::string_view absolute) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  while (start < absolute.size()) {
    std::size_t end = absolute.find('/', start);
    if (end == std::string_view::npos) end = absolute.size();
    const std::string_view part = absolute.substr(start, end - start);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    start = end + 1;
  }
  if (parts.empty()) return "/";
  std::string normal;
  for (const std::string_view part : parts) {
    normal.push_back('/');
    normal.append(part);
  }
  return normal;
}

bool is_within(std::string_view path, std::string_view ancestor) {
  if (ancestor == "/") return true;
  return path.starts_with(ancestor) &&
         (path.size() == ancestor.size() || path[ancestor.size()] == '/');
}

}  // namespace caisson
