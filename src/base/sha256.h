#pragma once
#include <string>
#include <string_view>

namespace caisson {

// The SHA-256 of the bytes (FIPS 180-4), as 64 lower-case hexadecimal digits. For telling contents
// apart; nothing secret depends on how long it takes.
std::string sha256_hex(std::string_view bytes);

}  // namespace caisson
