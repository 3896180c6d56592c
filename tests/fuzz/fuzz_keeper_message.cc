// What the keeper reads from an owner, and an owner from the keeper: either may be of another
// version of the program.
#include "fuzz.h"
#include "wire/keeper.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = caisson::fuzz::text(data, size);
  caisson::fuzz::decode_and_encode(caisson::wire::decode_keeper_request, bytes);
  caisson::fuzz::decode_and_encode(caisson::wire::decode_keeper_reply, bytes);
  return 0;
}
