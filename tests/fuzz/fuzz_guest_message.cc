// What the owner reads from a guest, which a box may have taken over.
#include "fuzz.h"
#include "wire/guest.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  caisson::fuzz::decode_and_encode(caisson::wire::decode_guest_message,
                                   caisson::fuzz::text(data, size));
  return 0;
}
