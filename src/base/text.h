#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caisson {

std::string_view trim(std::string_view text);  // ASCII white space at both ends
std::string to_lower(std::string_view text);   // ASCII only
bool is_ascii_alphanumeric(char c);
std::vector<std::string_view> split(std::string_view text, char separator);  // keeps empty pieces
std::string join(const std::vector<std::string>& pieces, std::string_view separator);
std::size_t count_of(char wanted, std::string_view text);
std::optional<long long> parse_integer(std::string_view text);  // decimal, whole text, no spaces

// Safe to print in a log or an error: control characters escaped, at most `limit` bytes, then
// "...".
std::string printable(std::string_view text, std::size_t limit = 200);

}  // namespace caisson
