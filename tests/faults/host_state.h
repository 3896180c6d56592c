#pragma once
#include <filesystem>
#include <set>
#include <string>

namespace caisson::faults {

// Everything a box could leave behind on the host, as far as this process can see it.
struct HostState {
  std::set<std::string> processes;   // "pid:start time" of the children of this process
  std::set<std::string> mounts;      // of this process's mount namespace
  std::set<std::string> cgroups;     // directories of owners and boxes, in every hierarchy
  std::set<std::string> namespaces;  // "net:[4026531840]" of all processes of the host
  std::set<std::string> links;       // network interfaces of boxes
  std::set<std::string> files;       // in the state directory and among the owners' locks
  std::size_t descriptors = 0;       // of this process
};

HostState observe(const std::filesystem::path& state_dir);

// What is in `after` and was not in `before`, one line each; empty: nothing was left behind.
std::string leftovers(const HostState& before, const HostState& after);

}  // namespace caisson::faults
