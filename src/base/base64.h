#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace caisson {

// RFC 4648, section 4, with padding.
std::string encode_base64(std::string_view bytes);

// nullopt: a character that is none of the alphabet, padding that is missing or not at the end, or
// bits that no encoder would leave set.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace caisson
