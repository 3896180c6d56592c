#pragma once
#include <vector>

#include "guest/payload.h"
#include "wire/guest.h"
#include "wire/plan.h"

namespace caisson::guest {

// Checks, from a process that started as every payload does, that the layers the owner asked for
// are really in force. The answers are facts the kernel gave, not a repetition of what was set.
// Throws StepError when nothing could be found out for want of processes, descriptors or memory.
std::vector<wire::ProofResult> prove(const wire::GuestSettings& settings,
                                     const PayloadRules& rules);

}  // namespace caisson::guest
