#pragma once
#include <vector>

#include "base/unique_fd.h"
#include "wire/launch.h"

// What is shown in a box that lives changes. The caller is a process of its own, which leaves its
// namespaces for those of the box and ends then. Payloads may rename and replace whatever they can
// write to meanwhile: every step goes from an open directory, follows no link, and is taken with
// the rights of the payload where it makes something. Both throw StepError.
namespace caisson::guest {

void show_mount(const wire::ShowMount& request, const std::vector<UniqueFd>& fds);
void hide_mount(const wire::HideMount& request, const std::vector<UniqueFd>& fds);

}  // namespace caisson::guest
