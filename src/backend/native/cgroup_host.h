#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::backend::native {

enum class CgroupVersion { v1, v2 };
enum class CgroupMode { none, v1, v2, hybrid };  // hybrid: hierarchies of both versions are mounted

// What a box needs of control groups. cpuacct only counts, and exists on v1 alone.
enum class Controller { memory, pids, cpu, cpuacct };

std::string_view to_string(CgroupMode mode);
std::string_view to_string(Controller controller);  // the kernel's name

// Owners of boxes make "caisson-<owner>" for their boxes and, where the kernel wants this process
// out of the way, "caisson-<owner>.home" beside it for themselves.
inline constexpr std::string_view kOwnerPrefix = "caisson-";
inline constexpr std::string_view kHomeSuffix = ".home";

// The file by which a process with a single thread enters a cgroup, writing "0". That of v1 moves
// the calling thread alone, which needs no lock of all processes: whoever takes that lock after a
// rest waits for every processor, some milliseconds. v2 has the like for no cgroup with memory.
constexpr const char* entry_file(CgroupVersion version) {
  return version == CgroupVersion::v1 ? "tasks" : "cgroup.procs";
}

// One mounted hierarchy, as this process sees it.
struct CgroupHierarchy {
  CgroupVersion version = CgroupVersion::v1;
  // Those a box needs: on v1 the ones bound to this hierarchy, on v2 the ones no v1 hierarchy has.
  std::set<Controller> controllers;
  std::filesystem::path own;   // the cgroup of this process
  std::filesystem::path base;  // where owners belong: `own`, or its parent when `own` is a home
  std::filesystem::path top;   // the hierarchy's root if it is mounted and not `base`; else empty
};

// The control groups of this host from the point of view of one process.
struct CgroupHost {
  CgroupMode mode = CgroupMode::none;
  std::vector<CgroupHierarchy> hierarchies;  // distinct, the unified one first
  bool has_swap = false;
  // Unless the kernel was told otherwise when it was booted.
  bool counts_kernel_memory = true;
  bool counts_sockets = true;  // on v2; v1 has a limit of its own for them

  const CgroupHierarchy* find(Controller controller) const;  // null when no mount shows it
  const CgroupHierarchy* find_unified() const;
};

// Reads /proc/self/mountinfo and /proc/self/cgroup as given; `prefix` is put before every mount
// point.
CgroupHost inspect_cgroups(std::string_view mountinfo, std::string_view self_cgroup,
                           const std::filesystem::path& prefix = {});
CgroupHost inspect_cgroups();  // of this process

// What "cgroup.memory=" among the words that the kernel was booted with turns off.
void read_kernel_words(std::string_view words, CgroupHost& host);

// The controllers among space-separated words, as cgroup.controllers lists them.
std::set<Controller> parse_controllers(std::string_view words);

}  // namespace caisson::backend::native
