#pragma once
#include <cstdint>
#include <string_view>

namespace caisson::journal {

// CRC-32C (Castagnoli), by the processor's instruction where there is one.
std::uint32_t crc32c(std::string_view bytes);

// The same from a table, on any processor.
std::uint32_t crc32c_portable(std::string_view bytes);

}  // namespace caisson::journal
