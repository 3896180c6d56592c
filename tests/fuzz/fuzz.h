#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

// What the fuzzers share. A property that does not hold ends the program, which is what libFuzzer
// reports together with the input.
namespace caisson::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline std::string_view text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Whatever the bytes are, they are refused as a protocol_error or have just this one spelling.
template <typename Decode>
void decode_and_encode(Decode decode, std::string_view data) {
  try {
    require(encode(decode(data)) == data);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::protocol_error);
  }
}

}  // namespace caisson::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
