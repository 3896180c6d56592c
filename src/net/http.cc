#include "net/http.h"

#include <strings.h>

#include <algorithm>

namespace caisson::net {

bool same_name(std::string_view left, std::string_view right) {
  return left.size() == right.size() && ::strncasecmp(left.data(), right.data(), left.size()) == 0;
}

const std::string* find_header(const std::vector<Header>& headers, std::string_view name) {
  const auto found = std::find_if(headers.begin(), headers.end(), [&](const Header& header) {
    return same_name(header.name, name);
  });
  return found == headers.end() ? nullptr : &found->value;
}

const std::string* Request::find_query(std::string_view name) const {
  const auto found = std::find_if(query.begin(), query.end(),
                                  [&](const auto& pair) { return pair.first == name; });
  return found == query.end() ? nullptr : &found->second;
}

}  // namespace caisson::net
