#include "quota/choose.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "quota/btrfs.h"
#include "quota/loop_device.h"
#include "quota/loop_volumes.h"
#include "quota/mounted.h"
#include "quota/project.h"
#include "quota/tmpfs_volumes.h"
#include "quota/tool.h"

namespace caisson::quota {

namespace {

namespace fs = std::filesystem;

constexpr unsigned kSysAdmin = 21;  // CAP_SYS_ADMIN
constexpr Enforced kBoth{.bytes = true, .inodes = true};

// The place whose file system a path will be on.
fs::path nearest_directory(const fs::path& path) {
  fs::path place = fs::absolute(path).lexically_normal();
  std::error_code ignored;  // what cannot be asked about is passed over
  while (place != place.root_path() && !fs::is_directory(place, ignored)) {
    place = place.parent_path();
  }
  return place;
}

std::uint64_t file_system_type(const fs::path& place) {
  struct statfs status {};
  check_syscall(place.native(), ::statfs(place.c_str(), &status));
  return static_cast<std::uint64_t>(status.f_type);
}

bool is_in_memory(std::uint64_t type) {
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

Candidate probe_project(const fs::path& place, std::uint64_t type) {
  Candidate found{.name = "project", .enforces = kBoth};
  if (type != EXT4_SUPER_MAGIC && type != XFS_SUPER_MAGIC) {
    found.why = str(place.native(), " is neither on ext4 nor on xfs");
    found.fix = "keep workspaces on an ext4 or xfs that is mounted with the option prjquota";
    return found;
  }
  if (const std::string problem = project_problem(place); !problem.empty()) {
    found.why = str("the file system of ", place.native(), ": ", problem);
    found.fix = type == XFS_SUPER_MAGIC
                    ? "mount it with the option prjquota"
                    : "unmount it, run `tune2fs -O project,quota -Q prjquota DEVICE`, mount it "
                      "with the option prjquota";
  }
  return found;
}

Candidate probe_btrfs(const fs::path& place, std::uint64_t type) {
  Candidate found{.name = "btrfs", .enforces = {.bytes = true}};
  if (type != BTRFS_SUPER_MAGIC) {
    found.why = str(place.native(), " is not on btrfs");
    found.fix = "keep workspaces on a btrfs with quotas";
  } else if (const std::string problem = btrfs_problem(place); !problem.empty()) {
    found.why = str("the file system of ", place.native(), ": ", problem);
    found.fix = str("run `btrfs quota enable ", place.native(), "`");
  }
  return found;
}

bool kernel_has(std::string_view type) {
  const std::string known = read_file("/proc/filesystems");
  return std::ranges::any_of(split(known, '\n'), [&](std::string_view line) {
    return trim(line.substr(std::min(line.find('\t'), line.size()))) == type;
  });
}

Candidate probe_loop(const fs::path& state, const ChooseOptions& options) {
  Candidate found{.name = "loop", .enforces = kBoth};
  if (!find_tool("mkfs.ext4") || !find_tool("e2fsck")) {
    found.why = "mkfs.ext4 and e2fsck are not installed";
    found.fix = "install the package e2fsprogs";
  } else if (!kernel_has("ext4")) {
    found.why = "the kernel does not know ext4";
    found.fix = "run `modprobe ext4`";
  } else if (const std::string problem = loop_device_problem(); !problem.empty()) {
    found.why = str("loop devices cannot be used: ", problem);
    found.fix = "run `modprobe loop`; in a container, give it /dev/loop-control and loop devices";
  } else if (is_in_memory(file_system_type(state)) && !options.volatile_allowed) {
    found.why = str(state.native(), ", where images would be, is in memory");
    found.fix = "keep the state directory on a disk";
  }
  return found;
}

Candidate probe_tmpfs(const ChooseOptions& options) {
  Candidate found{.name = "tmpfs", .enforces = kBoth};
  if (!options.volatile_allowed) {
    found.why = "its data is gone when the host restarts, and nobody allowed that";
    found.fix = "allow volatile storage, or fix one of the others";
  }
  return found;
}

std::vector<Candidate> without_privilege() {
  std::vector<Candidate> none;
  for (const auto& [name, enforces] : {std::pair<const char*, Enforced>{"project", kBoth},
                                       {"btrfs", {.bytes = true}},
                                       {"loop", kBoth},
                                       {"tmpfs", kBoth}}) {
    none.push_back({.name = name,
                    .enforces = enforces,
                    .why = "storage limits need CAP_SYS_ADMIN on the host, which this process "
                           "does not have",
                    .fix = "run caisson as root, outside of a user namespace"});
  }
  return none;
}

std::unique_ptr<Driver> make_driver(const std::string& name, const fs::path& state) {
  if (name == "project") return std::make_unique<Project>(state);
  if (name == "btrfs") return std::make_unique<Btrfs>(state);
  if (name == "loop") {
    return std::make_unique<Mounted>(state, std::make_unique<LoopVolumes>(state));
  }
  return std::make_unique<Mounted>(state, std::make_unique<TmpfsVolumes>());
}

}  // namespace

bool is_host_admin(std::string_view status, std::string_view uid_map) {
  // The map of the first user namespace: all ids are themselves.
  std::vector<std::string_view> map;
  for (const std::string_view word : split(trim(uid_map), ' ')) {
    if (!word.empty()) map.push_back(word);
  }
  if (map != std::vector<std::string_view>{"0", "0", "4294967295"}) return false;
  for (const std::string_view line : split(status, '\n')) {
    if (!line.starts_with("CapEff:")) continue;
    const std::string_view digits = trim(line.substr(7));
    std::uint64_t set = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), set, 16);
    return (set >> kSysAdmin & 1) != 0;
  }
  return false;
}

std::size_t decide(std::vector<Candidate>& candidates, const ChooseOptions& options) {
  for (Candidate& candidate : candidates) {
    if (!candidate.why.empty() || !options.inodes_required || candidate.enforces.inodes) continue;
    candidate.why = "it does not bind the number of files, which is required";
  }
  return static_cast<std::size_t>(
      std::ranges::find_if(candidates, [](const Candidate& c) { return c.why.empty(); }) -
      candidates.begin());
}

Choice choose(const fs::path& root, const ChooseOptions& options) {
  Choice choice;
  if (!is_host_admin(read_file("/proc/self/status"), read_file("/proc/self/uid_map"))) {
    choice.candidates = without_privilege();
    return choice;
  }
  const fs::path place = nearest_directory(root);
  const std::uint64_t type = file_system_type(place);
  choice.candidates = {probe_project(place, type), probe_btrfs(place, type),
                       probe_loop(nearest_directory(options.state), options), probe_tmpfs(options)};
  const std::size_t chosen = decide(choice.candidates, options);
  if (chosen < choice.candidates.size()) {
    choice.driver = make_driver(choice.candidates[chosen].name, options.state);
  }
  return choice;
}

}  // namespace caisson::quota
