#pragma once
#include "base/unique_fd.h"

namespace caisson::guest {

// The life of the launcher: a small process with few descriptors that turns copies of itself into
// boxes, because its owner is large, has threads and secrets, and must not. Serves the owner's
// requests until the owner is gone, then removes what the owner left behind. Returns the exit
// status.
int run_launcher(UniqueFd control);

}  // namespace caisson::guest
