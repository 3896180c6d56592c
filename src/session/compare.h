#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/box_spec.h"

namespace caisson::session {

// Whether a session's box is what a caller asks for. Settings of a single call (command, workdir,
// env, timeout) never matter.

// The first setting that differs, as "network=off" with the value the session has; nullopt when the
// box will do. The order and the spelling of values are LangBot's.
std::optional<std::string> first_conflict(const model::BoxSpec& existing,
                                          const model::BoxSpec& wanted);

// The extra mounts that are shown of these: each once, and none of mode `none`.
std::vector<model::MountSpec> shown_mounts(const std::vector<model::MountSpec>& mounts);

// What has to happen for a box that shows the one to show the other.
struct MountChanges {
  std::vector<model::MountSpec> surplus;
  std::vector<model::MountSpec> missing;
  bool empty() const { return surplus.empty() && missing.empty(); }
};
MountChanges mount_changes(const std::vector<model::MountSpec>& shown,
                           const std::vector<model::MountSpec>& wanted);

// Whether they differ in more than artifacts, which come and go.
bool differs_in_plain_mounts(const model::BoxSpec& existing, const model::BoxSpec& wanted);

// Throws session_conflict, with the sentences of LangBot's runtime, when a session with the one
// cannot be used by who asks for the other.
void require_compatible(const model::BoxSpec& existing, const model::BoxSpec& wanted);

}  // namespace caisson::session
