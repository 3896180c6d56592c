#pragma once
#include <cerrno>

namespace caisson {

// Whether a call failed for want of descriptors, processes or memory, of which there may be enough
// again in a moment.
inline bool is_exhaustion(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == EAGAIN ||
         error_number == ENOMEM;
}

}  // namespace caisson
