#pragma once
#include <cstdint>
#include <string_view>

namespace caisson::journal {

// CRC-32C (Castagnoli), by the processor's instruction where there is one. `before` is that of the
// bytes before these, for something that comes in pieces.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t before = 0);

// The same from a table, on any processor.
std::uint32_t crc32c_portable(std::string_view bytes, std::uint32_t before = 0);

}  // namespace caisson::journal
