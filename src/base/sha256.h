#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace caisson {

// The SHA-256 of bytes (FIPS 180-4), as 64 lower-case hexadecimal digits. For telling contents
// apart; nothing secret depends on how long it takes.
std::string sha256_hex(std::string_view bytes);

// The same of what comes in pieces.
class Sha256 {
 public:
  void add(std::string_view bytes);
  std::string hex() const;  // of all so far

 private:
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::uint64_t count_ = 0;
  std::string rest_;  // less than a block
};

}  // namespace caisson
