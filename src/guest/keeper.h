#pragma once
#include "base/unique_fd.h"

namespace caisson::guest {

// Holds descriptors for owners of boxes that come and go, so that boxes and what their processes
// write outlive each of them. Owners connect to the listening socket, one at a time: who comes
// takes the place of who was there. Ends when it is told to, or when it holds nothing and nobody is
// connected. Returns the exit code.
int run_keeper(UniqueFd listener);

}  // namespace caisson::guest
