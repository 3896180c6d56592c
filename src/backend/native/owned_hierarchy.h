#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/native/cgroup_host.h"
#include "backend/native/cgroup_limits.h"
#include "base/unique_fd.h"

namespace caisson::backend::native {

// One hierarchy in which an owner has its directory.
struct OwnedHierarchy {
  CgroupVersion version = CgroupVersion::v1;
  std::set<Controller> controllers;  // that limit boxes here
  std::filesystem::path base;        // the directory of the owner lies in it
  std::filesystem::path path;        // the directory of the owner
  UniqueFd directory;                // O_PATH
  UniqueFd home;                     // entry_file() of where this process lives
  std::filesystem::path home_path;   // v2: the leaf this process moved to; else empty
  std::vector<Controller> enabled;   // v2: in `base`, by us
  MemoryControls memory;
  bool memory_is_bounded = false;  // all of it: the memory limit is worth its name
  double most_cpus =
      std::numeric_limits<double>::infinity();  // v1 refuses more than an ancestor has
};

struct OwnerDirectories {
  std::vector<OwnedHierarchy> hierarchies;
};

// The name of a process's group that does not lie within its box's; and the id in such a name.
std::string group_beside(const std::string& box, std::uint64_t id);
std::optional<std::uint64_t> find_group_beside(std::string_view name);

}  // namespace caisson::backend::native
