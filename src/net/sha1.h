#pragma once
#include <array>
#include <string_view>

namespace caisson::net {

// The digest that the handshake of websockets is made with. It proves that the server has read the
// key, and nothing about secrets: SHA-1 is fit for that and for nothing else.
std::array<char, 20> sha1(std::string_view text);

}  // namespace caisson::net
