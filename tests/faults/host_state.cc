#include "host_state.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <vector>

#include "backend/native/cgroup_host.h"
#include "backend/native/owner.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::faults {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> pids() {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::string name = entry.path().filename();
    if (std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); })) {
      found.push_back(std::move(name));
    }
  }
  return found;
}

// The fields of /proc/PID/stat after the command name, which may hold anything.
std::vector<std::string> stat_fields(const std::string& pid) {
  std::ifstream file(str("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const std::size_t end = line.rfind(')');
  std::vector<std::string> fields;
  if (end == std::string::npos) return fields;
  std::istringstream rest(line.substr(end + 2));
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

void add_processes(HostState& state) {
  constexpr std::size_t kParent = 1;
  constexpr std::size_t kStartTime = 19;
  for (const std::string& pid : pids()) {
    const std::vector<std::string> fields = stat_fields(pid);
    if (fields.size() <= kStartTime) continue;
    if (fields[kParent] == str(::getpid())) {
      state.processes.insert(str(pid, ":", fields[kStartTime]));
    }
    for (const char* name : {"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"}) {
      std::error_code error;
      const fs::path link = fs::read_symlink(str("/proc/", pid, "/ns/", name), error);
      if (!error) state.namespaces.insert(link.native());
    }
  }
}

void add_cgroups(HostState& state) {
  const backend::native::CgroupHost host = backend::native::inspect_cgroups();
  for (const auto& hierarchy : host.hierarchies) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(hierarchy.base, error)) {
      if (!entry.path().filename().native().starts_with(backend::native::kOwnerPrefix)) continue;
      state.cgroups.insert(entry.path().native());
      for (const auto& box : fs::directory_iterator(entry.path(), error)) {
        if (box.is_directory()) state.cgroups.insert(box.path().native());
      }
    }
  }
}

void add_new(std::string& text, const char* kind, const std::set<std::string>& before,
             const std::set<std::string>& after) {
  for (const std::string& item : after) {
    if (!before.contains(item)) text += str(kind, " ", item, "\n");
  }
}

}  // namespace

HostState observe(const fs::path& state_dir) {
  HostState state;
  add_processes(state);
  const std::string mountinfo = read_file("/proc/self/mountinfo");
  for (const std::string_view line : split(mountinfo, '\n')) state.mounts.emplace(line);
  add_cgroups(state);
  for (const auto& entry : fs::directory_iterator("/sys/class/net")) {
    std::string name = entry.path().filename();
    if (name.starts_with("cs")) state.links.insert(std::move(name));
  }
  for (const fs::path& directory : {state_dir, backend::native::runtime_directory()}) {
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(directory, error)) {
      state.files.insert(entry.path().native());
    }
  }
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    ++state.descriptors;
  }
  return state;
}

std::string leftovers(const HostState& before, const HostState& after) {
  std::string text;
  add_new(text, "process", before.processes, after.processes);
  add_new(text, "mount", before.mounts, after.mounts);
  add_new(text, "cgroup", before.cgroups, after.cgroups);
  add_new(text, "namespace", before.namespaces, after.namespaces);
  add_new(text, "network interface", before.links, after.links);
  add_new(text, "file", before.files, after.files);
  if (after.descriptors > before.descriptors) {
    text += str("descriptors: ", before.descriptors, " before, ", after.descriptors, " after\n");
  }
  return text;
}

}  // namespace caisson::faults
