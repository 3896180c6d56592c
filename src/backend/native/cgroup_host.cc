#include "backend/native/cgroup_host.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

constexpr std::array kLimiting = {Controller::memory, Controller::pids, Controller::cpu};
constexpr std::array kAll = {Controller::memory, Controller::pids, Controller::cpu,
                             Controller::cpuacct};

// A line of mountinfo: "id parent dev root mount_point options [tags] - type source super_options".
struct Mount {
  std::string_view id;
  std::string_view parent;
  std::string root;
  std::string mount_point;
  bool read_only = false;
  std::string_view type;
  std::vector<std::string_view> super_options;
};

// A line of /proc/self/cgroup: "id:controllers:path"; the path is not escaped and may hold colons.
struct Membership {
  std::vector<std::string_view> controllers;
  std::string_view path;
};

bool contains(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

// mountinfo writes space, tab, newline, '#' and backslash as three octal digits.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i).substr(1, 3);
    if (text[i] == '\\' && digits.size() == 3 &&
        std::all_of(digits.begin(), digits.end(), is_octal)) {
      plain.push_back(
          static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + digits[2] - '0'));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

std::optional<Mount> parse_mount(std::string_view line) {
  const std::vector<std::string_view> fields = split(line, ' ');
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (dash - fields.begin() < 6 || fields.end() - dash < 4) return std::nullopt;
  return Mount{.id = fields[0],
               .parent = fields[1],
               .root = unescape(fields[3]),
               .mount_point = unescape(fields[4]),
               .read_only = contains(split(fields[5], ','), "ro"),
               .type = dash[1],
               .super_options = split(dash[3], ',')};
}

// The cgroup mounts that a path can reach: one with another mount right on top of it cannot be.
std::vector<Mount> parse_mounts(std::string_view mountinfo) {
  std::vector<Mount> all;
  for (const std::string_view line : split(mountinfo, '\n')) {
    if (std::optional<Mount> mount = parse_mount(line)) all.push_back(std::move(*mount));
  }
  std::vector<Mount> visible;
  for (const Mount& mount : all) {
    if (mount.type != "cgroup" && mount.type != "cgroup2") continue;
    const bool covered = std::any_of(all.begin(), all.end(), [&](const Mount& other) {
      return other.parent == mount.id && other.mount_point == mount.mount_point;
    });
    if (!covered) visible.push_back(mount);
  }
  return visible;
}

std::vector<Membership> parse_memberships(std::string_view self_cgroup) {
  std::vector<Membership> memberships;
  for (const std::string_view line : split(self_cgroup, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second =
        first == std::string_view::npos ? std::string_view::npos : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    memberships.push_back({.path = line.substr(second + 1)});
    if (!controllers.empty()) memberships.back().controllers = split(controllers, ',');
  }
  return memberships;
}

// "/a/b/c" seen through a mount whose root is "/a" is "b/c". Both are relative to the cgroup
// namespace and climb out of it with "/..": what lies beyond the mount's root has no path through
// this mount.
std::optional<std::string> path_through(std::string_view root, std::string_view path) {
  if (root == "/") root = "";
  if (!path.starts_with(root)) return std::nullopt;
  std::string_view rest = path.substr(root.size());
  if (!rest.empty() && rest.front() != '/') return std::nullopt;
  while (rest.starts_with('/')) rest.remove_prefix(1);
  if (contains(split(rest, '/'), "..")) return std::nullopt;
  return std::string(rest);
}

// Finds the process's own cgroup through the mounts of one hierarchy, through a writable one if
// possible.
template <typename Belongs>
std::optional<CgroupHierarchy> locate(const std::vector<Mount>& mounts, std::string_view path,
                                      const std::filesystem::path& prefix, Belongs belongs) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    if (!belongs(mount) || !path_through(mount.root, path)) continue;
    if (best == nullptr || (best->read_only && !mount.read_only)) best = &mount;
  }
  if (best == nullptr) return std::nullopt;
  const std::string rest = *path_through(best->root, path);
  CgroupHierarchy found;
  const std::filesystem::path top(str(prefix.native(), best->mount_point));
  found.own = rest.empty() ? top : top / rest;
  const std::string name = found.own.filename();
  const bool at_home =
      !rest.empty() && name.starts_with(kOwnerPrefix) && name.ends_with(kHomeSuffix);
  found.base = at_home ? found.own.parent_path() : found.own;
  if (best->root == "/" && top != found.base) found.top = top;
  return found;
}

std::set<Controller> words_to_controllers(const std::vector<std::string_view>& words) {
  std::set<Controller> found;
  for (const Controller controller : kAll) {
    if (contains(words, to_string(controller))) found.insert(controller);
  }
  return found;
}

}  // namespace

std::set<Controller> parse_controllers(std::string_view words) {
  return words_to_controllers(split(trim(words), ' '));
}

std::string_view to_string(CgroupMode mode) {
  switch (mode) {
    case CgroupMode::none:
      return "none";
    case CgroupMode::v1:
      return "v1";
    case CgroupMode::v2:
      return "v2";
    case CgroupMode::hybrid:
      return "hybrid";
  }
  return "unknown";
}

std::string_view to_string(Controller controller) {
  switch (controller) {
    case Controller::memory:
      return "memory";
    case Controller::pids:
      return "pids";
    case Controller::cpu:
      return "cpu";
    case Controller::cpuacct:
      return "cpuacct";
  }
  return "unknown";
}

const CgroupHierarchy* CgroupHost::find(Controller controller) const {
  for (const CgroupHierarchy& hierarchy : hierarchies) {
    if (hierarchy.controllers.contains(controller)) return &hierarchy;
  }
  return nullptr;
}

const CgroupHierarchy* CgroupHost::find_unified() const {
  const bool has = !hierarchies.empty() && hierarchies.front().version == CgroupVersion::v2;
  return has ? &hierarchies.front() : nullptr;
}

CgroupHost inspect_cgroups(std::string_view mountinfo, std::string_view self_cgroup,
                           const std::filesystem::path& prefix) {
  const std::vector<Mount> mounts = parse_mounts(mountinfo);
  const auto is_v1 = [](const Mount& mount) { return mount.type == "cgroup"; };
  const auto is_v2 = [](const Mount& mount) { return mount.type == "cgroup2"; };
  const bool v1 = std::any_of(mounts.begin(), mounts.end(), is_v1);
  const bool v2 = std::any_of(mounts.begin(), mounts.end(), is_v2);
  CgroupHost host;
  host.mode = v1 && v2 ? CgroupMode::hybrid
              : v2     ? CgroupMode::v2
              : v1     ? CgroupMode::v1
                       : CgroupMode::none;

  std::set<Controller> left_for_v2(kLimiting.begin(), kLimiting.end());
  std::optional<CgroupHierarchy> unified;
  for (const Membership& membership : parse_memberships(self_cgroup)) {
    if (membership.controllers.empty()) {
      unified = locate(mounts, membership.path, prefix, is_v2);
      continue;
    }
    const std::set<Controller> controllers = words_to_controllers(membership.controllers);
    if (controllers.empty()) continue;
    for (const Controller controller : controllers) left_for_v2.erase(controller);
    const std::string_view name = to_string(*controllers.begin());
    const auto belongs = [&](const Mount& mount) {
      return is_v1(mount) && contains(mount.super_options, name);
    };
    if (std::optional<CgroupHierarchy> found = locate(mounts, membership.path, prefix, belongs)) {
      found->controllers = controllers;
      host.hierarchies.push_back(std::move(*found));
    }
  }
  if (unified) {
    unified->version = CgroupVersion::v2;
    unified->controllers = left_for_v2;
    // The unified hierarchy counts processor time for every cgroup: one for cpuacct alone is not
    // needed.
    std::erase_if(host.hierarchies, [](const CgroupHierarchy& hierarchy) {
      return hierarchy.controllers == std::set{Controller::cpuacct};
    });
    host.hierarchies.insert(host.hierarchies.begin(), std::move(*unified));
  }
  return host;
}

CgroupHost inspect_cgroups() {
  CgroupHost host =
      inspect_cgroups(read_file("/proc/self/mountinfo"), read_file("/proc/self/cgroup"));
  // The first line is a heading.
  host.has_swap = split(trim(read_file("/proc/swaps")), '\n').size() > 1;
  read_kernel_words(read_file("/proc/cmdline"), host);
  return host;
}

void read_kernel_words(std::string_view words, CgroupHost& host) {
  constexpr std::string_view kKey = "cgroup.memory=";
  for (const std::string_view word : split(trim(words), ' ')) {
    if (!word.starts_with(kKey)) continue;
    for (const std::string_view off : split(word.substr(kKey.size()), ',')) {
      if (off == "nokmem") host.counts_kernel_memory = false;
      if (off == "nosocket") host.counts_sockets = false;
    }
  }
}

}  // namespace caisson::backend::native
