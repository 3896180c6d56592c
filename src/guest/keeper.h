#pragma once
#include "base/unique_fd.h"

namespace caisson::guest {

// Holds descriptors for owners of boxes that come and go, so that boxes and what their processes
// write outlive each of them. Owners connect to the listening socket, one at a time: who comes
// takes the place of who was there. Ends, and lets everything end with it, when it is told to; and
// while nobody is connected, when it holds nothing, when the directory has lost the socket (nobody
// could come any more), or when nobody came for ten minutes. Returns the exit code.
int run_keeper(UniqueFd listener, UniqueFd directory);

}  // namespace caisson::guest
