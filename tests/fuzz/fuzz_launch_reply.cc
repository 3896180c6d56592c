// What the owner reads from its launcher.
#include "fuzz.h"
#include "wire/launch.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  caisson::fuzz::decode_and_encode(caisson::wire::decode_launch_reply,
                                   caisson::fuzz::text(data, size));
  return 0;
}
