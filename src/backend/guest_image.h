#pragma once
#include <cstddef>
#include <span>

#include "base/unique_fd.h"

namespace caisson::backend {

// The static guest program, as it is embedded in this binary.
std::span<const std::byte> guest_image();

// The guest as an executable memory file, sealed: what runs in a box cannot change what runs next.
UniqueFd open_guest_program();

}  // namespace caisson::backend
