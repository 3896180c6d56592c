#pragma once
#include <cstddef>

#include "model/config.h"

namespace caisson::daemon {

// Lets this process have as many descriptors as it may, and gives their number. Payloads get a
// limit of their own with their box.
std::size_t raise_descriptor_limit();

// How many sessions so many descriptors suffice for, beside so many connections.
std::size_t sessions_that_fit(std::size_t descriptors, std::size_t connections);

// Tells the operator, and warns of a limit of sessions that cannot be reached.
void report_room(std::size_t descriptors, const model::Config& config);

}  // namespace caisson::daemon
