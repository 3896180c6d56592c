#pragma once
#include "base/unique_fd.h"
#include "guest/payload.h"
#include "wire/plan.h"

namespace caisson::guest {

// The life of process 1 of a box: starts what the owner asks for, reaps everything, reports each
// end, and ends the whole box when the owner says so or goes away. Nothing a payload does reaches
// it: it reads from the owner's socket only.
[[noreturn]] void serve(UniqueFd control, const wire::GuestSettings& settings, PayloadRules rules);

}  // namespace caisson::guest
