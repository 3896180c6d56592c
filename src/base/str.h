#pragma once
#include <concepts>
#include <string>
#include <string_view>

namespace caisson {

namespace str_detail {
inline void append(std::string& out, std::string_view piece) {
  out.append(piece);
}
inline void append(std::string& out, char piece) {
  out.push_back(piece);
}
template <typename T>
  requires(std::integral<T> && !std::same_as<T, char> && !std::same_as<T, bool>)
void append(std::string& out, T piece) {
  out.append(std::to_string(piece));
}
}  // namespace str_detail

// str("open ", path, ": ", errno): text and whole numbers joined into one string.
template <typename... Pieces>
std::string str(const Pieces&... pieces) {
  std::string out;
  (str_detail::append(out, pieces), ...);
  return out;
}

}  // namespace caisson
