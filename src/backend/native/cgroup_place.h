#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "backend/native/cgroup_host.h"
#include "model/isolation.h"

namespace caisson::backend::native {

// Whether a controller can limit boxes at a place; if not, why, and the step that fixes it.
struct ControllerState {
  Controller controller;
  bool usable = false;
  std::string detail;
  std::string fix;
};

// Where in a hierarchy the directories of owners go and what has to be done first.
struct CgroupPlace {
  std::filesystem::path directory;
  bool writable = false;
  std::vector<ControllerState> controllers;
  std::vector<Controller> enable;  // v2: not yet in the directory's cgroup.subtree_control
  bool leave_first = false;  // v2: enabling needs a directory without processes, and we live in it
};

// Decides by reading only. On v2 this is the process's own cgroup unless others live in it or it
// lacks a controller; then the hierarchy's root, which may hold both processes and controllers, if
// root allows.
CgroupPlace choose_place(const CgroupHierarchy& hierarchy, pid_t self = ::getpid());

// memory_limit, pids_limit and cpu_limit: in force, or missing with reason and fixing step.
std::vector<model::LayerReport> report_limits(const CgroupHost& host);

// The layer a controller enforces. cpuacct enforces none and is not asked for.
model::Layer layer_of(Controller controller);

}  // namespace caisson::backend::native
