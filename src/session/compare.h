#pragma once
#include <optional>
#include <string>

#include "model/box_spec.h"

namespace caisson::session {

// Whether a session's box is what a caller asks for. Settings of a single call (command, workdir,
// env, timeout) never matter.

// The first setting that differs, as "network=off" with the value the session has; nullopt when the
// box will do. The order and the spelling of values are LangBot's.
std::optional<std::string> first_conflict(const model::BoxSpec& existing,
                                          const model::BoxSpec& wanted);

// Whether both show the same extra directories of the host. Order, repetition and mounts of mode
// `none` do not count.
bool same_extra_mounts(const model::BoxSpec& existing, const model::BoxSpec& wanted);

}  // namespace caisson::session
