#include "model/isolation.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

namespace caisson::model {

std::string_view to_string(Layer layer) {
  switch (layer) {
    case Layer::user_namespace:
      return "user_namespace";
    case Layer::mount_namespace:
      return "mount_namespace";
    case Layer::pid_namespace:
      return "pid_namespace";
    case Layer::ipc_namespace:
      return "ipc_namespace";
    case Layer::uts_namespace:
      return "uts_namespace";
    case Layer::cgroup_namespace:
      return "cgroup_namespace";
    case Layer::network:
      return "network";
    case Layer::capabilities:
      return "capabilities";
    case Layer::seccomp:
      return "seccomp";
    case Layer::proc_masks:
      return "proc_masks";
    case Layer::own_inodes:
      return "own_inodes";
    case Layer::bounded_storage:
      return "bounded_storage";
    case Layer::workspace_owner:
      return "workspace_owner";
    case Layer::memory_limit:
      return "memory_limit";
    case Layer::pids_limit:
      return "pids_limit";
    case Layer::cpu_limit:
      return "cpu_limit";
    case Layer::guest_protection:
      return "guest_protection";
  }
  return "unknown";
}

std::string_view to_string(LayerState state) {
  switch (state) {
    case LayerState::in_force:
      return "in_force";
    case LayerState::weaker:
      return "weaker";
    case LayerState::missing:
      return "missing";
  }
  return "missing";
}

const std::vector<Layer>& all_layers() {
  static const std::vector<Layer> layers = {
      Layer::user_namespace,  Layer::mount_namespace,  Layer::pid_namespace,
      Layer::ipc_namespace,   Layer::uts_namespace,    Layer::cgroup_namespace,
      Layer::network,         Layer::capabilities,     Layer::seccomp,
      Layer::proc_masks,      Layer::own_inodes,       Layer::bounded_storage,
      Layer::workspace_owner, Layer::memory_limit,     Layer::pids_limit,
      Layer::cpu_limit,       Layer::guest_protection,
  };
  return layers;
}

std::optional<Layer> layer_from_string(std::string_view name) {
  for (const Layer layer : all_layers()) {
    if (to_string(layer) == name) return layer;
  }
  return std::nullopt;
}

const LayerReport* IsolationReport::find(Layer layer) const {
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [layer](const LayerReport& r) { return r.layer == layer; });
  return found == layers.end() ? nullptr : &*found;
}

std::vector<LayerReport> IsolationReport::weaker() const {
  std::vector<LayerReport> found;
  std::copy_if(layers.begin(), layers.end(), std::back_inserter(found),
               [](const LayerReport& r) { return r.state != LayerState::in_force; });
  return found;
}

void add_fix(boost::json::object& object, const std::string& fix) {
  if (fix.empty()) return;
  object["fix"] = fix;
  object["mend"] = fix;  // its name before 0.2; it goes with 1.0
}

boost::json::value to_json(const IsolationReport& report) {
  boost::json::array layers;
  for (const LayerReport& entry : report.layers) {
    boost::json::object object{{"layer", to_string(entry.layer)},
                               {"state", to_string(entry.state)},
                               {"detail", entry.detail}};
    add_fix(object, entry.fix);
    layers.push_back(std::move(object));
  }
  return layers;
}

}  // namespace caisson::model
