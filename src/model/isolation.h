#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::model {

// One thing that keeps a box apart from its host. The order is the order of reports.
enum class Layer {
  user_namespace,    // the payload's host uid is not 0, not the guest's, not another box's
  mount_namespace,   // own root file system, read-only unless asked otherwise
  pid_namespace,     //
  ipc_namespace,     //
  uts_namespace,     //
  cgroup_namespace,  //
  network,           // own network namespace; with `network: on`, own addresses behind NAT
  capabilities,      // every set empty, no_new_privs
  seccomp,           // allow-list of system calls
  proc_masks,        // kernel files hidden, sysctls read-only
  own_inodes,        // watches and locks on system files do not meet those of others
  bounded_storage,   // writable places limited in bytes and inodes
  workspace_owner,   // files written to a mounted workspace belong to its owner on the host
  memory_limit,      //
  pids_limit,        //
  cpu_limit,         //
  guest_protection,  // process 1 cannot be reached by the payload
};

enum class LayerState { in_force, weaker, missing };

struct LayerReport {
  Layer layer;
  LayerState state = LayerState::in_force;
  std::string detail;  // what exactly is in force, or why not
  std::string fix;     // the step that would put it fully in force; empty when it is
  bool operator==(const LayerReport&) const = default;
};

struct IsolationReport {
  std::vector<LayerReport> layers;
  bool operator==(const IsolationReport&) const = default;

  const LayerReport* find(Layer layer) const;
  // Layers that are not fully in force: what every answer about the box has to show.
  std::vector<LayerReport> weaker() const;
};

std::string_view to_string(Layer layer);  // "memory_limit"
std::string_view to_string(LayerState state);
std::optional<Layer> layer_from_string(std::string_view name);
const std::vector<Layer>& all_layers();

boost::json::value to_json(const IsolationReport& report);
// The step as answers show it; nothing when there is none.
void add_fix(boost::json::object& object, const std::string& fix);

}  // namespace caisson::model
