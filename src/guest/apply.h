#pragma once
#include <vector>

#include "base/unique_fd.h"
#include "wire/plan.h"

namespace caisson::guest {

// Applies the steps in order to the calling process. `control` is the socket to the owner, used by
// steps that need an answer; `fds` are the descriptors the plan refers to. Throws StepError at the
// first step that fails; the process is then good for nothing but to report it and exit.
void apply(const wire::Plan& plan, const std::vector<UniqueFd>& fds, int control);

}  // namespace caisson::guest
