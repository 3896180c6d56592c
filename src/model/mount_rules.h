#pragma once
#include <string>
#include <vector>

#include "model/box_spec.h"

namespace caisson::model {

// Which paths of the host an operator shows to boxes. Never shown, whatever they say: kernel and
// device files, the system's configuration and run-time state, root's home, container engines'
// stores, and every directory above one of these. System programs are read-only.
struct MountRules {
  std::vector<std::string> protected_paths;  // never, nor what contains them
  std::vector<std::string> roots;            // only what is below one of these; empty: anywhere
};

// Why the path may not be mounted; empty when it may. The path is in normal form with its symbolic
// links resolved. Pure.
std::string mount_refusal(const std::string& resolved, MountMode mode, const MountRules& rules);

}  // namespace caisson::model
