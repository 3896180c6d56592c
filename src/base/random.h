#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace caisson {

// From the kernel.
void fill_randomly(void* bytes, std::size_t size);
std::uint64_t random_number();

// So many random bytes as hexadecimal digits: a secret, or a name that nobody else has.
std::string random_hex(std::size_t bytes);

}  // namespace caisson
