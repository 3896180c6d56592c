#pragma once
#include <string>
#include <vector>

#include "model/box_settings.h"

namespace caisson::model {

// Which paths of the host an operator shows to boxes. Never shown, whatever they say: kernel and
// device files, the system's configuration and run-time state, root's home, container engines'
// stores, and every directory above one of these. System programs are read-only.
struct MountRules {
  std::vector<std::string> protected_paths;  // never, nor what contains them
  std::vector<std::string> roots;            // only what is below one of these; empty: anywhere
  // Directories in which every workspace has one of its own, DIRECTORY/tenants/NAMESPACE. A box
  // sees of them what is its own workspace's; that of none sees what is beside `tenants`.
  std::vector<std::string> shared = {};
  std::string name_space = {};  // of the workspace that the box is for; empty: none
  bool operator==(const MountRules&) const = default;
};

// The directory of workspaces in a shared one.
inline constexpr const char* kTenants = "tenants";

// Why the path may not be mounted; empty when it may. The path is in normal form with its symbolic
// links resolved. Pure.
std::string mount_refusal(const std::string& resolved, MountMode mode, const MountRules& rules);

// Directories below a path that may be mounted which the box must not see all the same. Pure.
std::vector<std::string> hidden_below(const std::string& resolved, const MountRules& rules);

}  // namespace caisson::model
