#include "backend/guest_image.h"

#include "base/file.h"

extern "C" {
extern const std::byte caisson_guest_image_begin[];
extern const std::byte caisson_guest_image_end[];
}

namespace caisson::backend {

std::span<const std::byte> guest_image() {
  return {caisson_guest_image_begin, caisson_guest_image_end};
}

UniqueFd open_guest_program() {
  return sealed_memory_file("caisson-guest", guest_image());
}

}  // namespace caisson::backend
