#include "backend/native/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <utility>

#include "backend/native/cgroup_kill.h"
#include "backend/native/cgroup_place.h"
#include "backend/native/owned_hierarchy.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

// What may be left of boxes that nobody takes over may cost a start.
constexpr std::chrono::seconds kSweepPatience{5};

constexpr const char* kMendRefusal =
    "run caisson as the host's root, outside of a restricted container";

// Also keeps control files ("memory.max") and homes ("x.home") from being taken for a cgroup.
void check_name(std::string_view what, std::string_view name) {
  const auto allowed = [](char c) { return is_ascii_alphanumeric(c) || c == '-' || c == '_'; };
  if (!name.empty() && name.size() <= 200 && std::all_of(name.begin(), name.end(), allowed)) return;
  throw Error(ErrorCode::validation_error,
              str("control group of ", what, " \"", printable(name),
                  "\": the name must be 1 to 200 letters, digits, '-' or '_'"));
}

void make_directory(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0755) < 0 && errno != EEXIST) throw SystemError(path.native(), errno);
}

bool exists(const UniqueFd& directory, const char* file) {
  return ::faccessat(directory.get(), file, F_OK, 0) == 0;
}

// "+memory +pids"
void change_subtree(const std::filesystem::path& directory, char sign,
                    const std::vector<Controller>& controllers) {
  std::vector<std::string> words;
  words.reserve(controllers.size());
  for (const Controller controller : controllers) words.push_back(str(sign, to_string(controller)));
  write_control_file(directory / "cgroup.subtree_control", join(words, " "));
}

// Enables the controllers for what is below the directory; those the kernel refuses are given back
// with the reason. One write is all or nothing, so a refusal is followed by one write for each.
std::map<Controller, std::string> enable(const std::filesystem::path& directory,
                                         const std::vector<Controller>& controllers) {
  std::map<Controller, std::string> refused;
  if (controllers.empty()) return refused;
  try {
    change_subtree(directory, '+', controllers);
    return refused;
  } catch (const SystemError&) {
    for (const Controller controller : controllers) {
      try {
        change_subtree(directory, '+', {controller});
      } catch (const SystemError& error) {
        refused[controller] = error.what();
      }
    }
  }
  return refused;
}

// The smallest share of processors that a cgroup from `directory` upwards is limited to.
double cpus_of_ancestors(std::filesystem::path directory) {
  double least = std::numeric_limits<double>::infinity();
  for (;; directory = directory.parent_path()) {
    const UniqueFd fd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!fd || !exists(fd, "cpu.cfs_quota_us")) return least;
    const auto quota = find_number(fd.get(), "cpu.cfs_quota_us");  // -1, no number here: no limit
    const auto period = find_number(fd.get(), "cpu.cfs_period_us");
    if (quota && period && *period > 0) {
      least = std::min(least, static_cast<double>(*quota) / static_cast<double>(*period));
    }
  }
}

// Memory that a box could take beyond its limit.
struct Gap {
  const char* what;
  const char* fix;
};

std::optional<Gap> find_gap(const CgroupHost& host, const OwnedHierarchy& owned) {
  if (host.has_swap && !owned.memory.swap) {
    return Gap{"this host has swap, and its kernel does not count it for control groups",
               "swapoff -a, or boot with swapaccount=1"};
  }
  if (!host.counts_kernel_memory) {
    return Gap{"this kernel does not count its own memory for control groups",
               "boot without cgroup.memory=nokmem"};
  }
  if (owned.version == CgroupVersion::v2 && !host.counts_sockets) {
    return Gap{"this kernel does not count buffers of sockets for control groups",
               "boot without cgroup.memory=nosocket"};
  }
  if (owned.version == CgroupVersion::v1 && !owned.memory.tcp) {
    return Gap{"this kernel cannot limit buffers of sockets in control groups of version 1",
               "boot with control groups of version 2: systemd.unified_cgroup_hierarchy=1"};
  }
  return std::nullopt;
}

// The locked directory of an owner who has a right to it.
UniqueFd get_group(const std::filesystem::path& path) {
  UniqueFd directory = make_locked_group(path);
  if (directory) return directory;
  throw SystemError(str("control group ", path.native(), " of another owner"), EBUSY);
}

// Goes to a leaf of its own where needed, makes the owner's directory and opens what is needed of
// it.
void move_in(OwnedHierarchy& owned, const CgroupHierarchy& hierarchy, const CgroupPlace& place,
             CgroupClaim& claim) {
  owned.directory = claim.extract(owned.path);
  if (!owned.directory) owned.directory = get_group(owned.path);
  std::filesystem::path home = hierarchy.own;
  if (place.leave_first) {
    home = str(owned.path.native(), kHomeSuffix);
    make_directory(home);
    owned.home_path = home;
    write_control_file(home / "cgroup.procs", "0");
  }
  owned.home = open_file(home / entry_file(owned.version), O_WRONLY);
}

// The same place as before, with its directory if that is still there, else with a new one.
OwnedHierarchy renewed(const OwnedHierarchy& before) {
  OwnedHierarchy now{.version = before.version,
                     .controllers = before.controllers,
                     .base = before.base,
                     .path = before.path,
                     .directory = {},
                     .home = duplicate(before.home.get(), before.home_path.native()),
                     .home_path = before.home_path,
                     .enabled = before.enabled,
                     .memory = before.memory,
                     .memory_is_bounded = before.memory_is_bounded,
                     .most_cpus = before.most_cpus};
  if (leads_to(before.path, before.directory.get())) {
    now.directory = duplicate(before.directory.get(), before.path.native());
    return now;
  }
  now.directory = get_group(now.path);
  if (now.version == CgroupVersion::v1) return now;
  for (const auto& [controller, reason] :
       enable(now.path, {now.controllers.begin(), now.controllers.end()})) {
    throw Error(ErrorCode::isolation_unavailable, reason);
  }
  return now;
}

// Brings the usable controllers down to the boxes of the owner; gives those the kernel refused.
std::map<Controller, std::string> enable_all(OwnedHierarchy& owned, const CgroupPlace& place) {
  std::map<Controller, std::string> refused = enable(owned.base, place.enable);
  for (const Controller controller : place.enable) {
    if (!refused.contains(controller)) owned.enabled.push_back(controller);
  }
  for (const auto& [controller, reason] : refused) owned.controllers.erase(controller);
  refused.merge(enable(owned.path, {owned.controllers.begin(), owned.controllers.end()}));
  for (const auto& [controller, reason] : refused) owned.controllers.erase(controller);
  return refused;
}

// The reverse. A home that others share, or that cannot be left because another owner's boxes need
// the controllers, stays; it costs nothing and a later sweep removes it.
bool move_out(OwnedHierarchy& owned) {
  // What somebody else made in its place is not ours.
  const bool ours = owned.directory && leads_to(owned.path, owned.directory.get());
  if (ours && ::rmdir(owned.path.c_str()) < 0 && errno != ENOENT) return false;
  if (owned.home_path.empty()) return true;
  try {
    if (!owned.enabled.empty()) change_subtree(owned.base, '-', owned.enabled);
    owned.enabled.clear();
    write_control_file(owned.base / "cgroup.procs", "0");
  } catch (const SystemError&) {
    return true;
  }
  ::rmdir(owned.home_path.c_str());
  owned.home_path.clear();
  return true;
}

// Removes the empty cgroups of dead owners in `base`, except one that `own` is part of.
void sweep_directory(const std::filesystem::path& base, const std::filesystem::path& own,
                     const CgroupOwner::IsLive& is_live, std::set<std::string>& left) {
  const UniqueFd directory(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return;
  for (const std::string& name : child_cgroups(directory.get())) {
    if (!name.starts_with(kOwnerPrefix)) continue;
    const bool is_home = name.ends_with(kHomeSuffix);
    const std::size_t end = name.size() - (is_home ? kHomeSuffix.size() : 0);
    const std::string owner = name.substr(kOwnerPrefix.size(), end - kOwnerPrefix.size());
    if (is_within(own.native(), (base / name).native()) || is_live(owner)) continue;
    // A home is as dead as the directory beside it, which is made before it and removed before it.
    const std::filesystem::path place = base / str(kOwnerPrefix, owner);
    const UniqueFd lock = lock_group(place);
    if (!lock && (!is_home || ::access(place.c_str(), F_OK) == 0)) continue;
    if (!remove_empty_tree(directory.get(), name)) left.insert(owner);
  }
}

}  // namespace

CgroupOwner::CgroupOwner(const CgroupHost& host, std::string_view owner, CgroupClaim claim)
    : directories_(std::make_shared<OwnerDirectories>()), reports_(report_limits(host)) {
  check_name("owner", owner);
  for (const CgroupHierarchy& hierarchy : host.hierarchies) settle(host, hierarchy, owner, claim);
  list_fds();
}

void CgroupOwner::list_fds() {
  home_fds_.clear();
  directory_fds_.clear();
  for (const OwnedHierarchy& owned : directories_->hierarchies) {
    home_fds_.insert(home_fds_.begin(), owned.home.get());
    directory_fds_.push_back(owned.directory.get());
  }
}

bool CgroupOwner::renew() {
  const auto is_there = [](const OwnedHierarchy& owned) {
    return leads_to(owned.path, owned.directory.get());
  };
  if (std::ranges::all_of(directories_->hierarchies, is_there)) return false;
  const auto now = std::make_shared<OwnerDirectories>();
  for (const OwnedHierarchy& owned : directories_->hierarchies) {
    now->hierarchies.push_back(renewed(owned));
  }
  directories_ = now;  // boxes of before keep what they have
  list_fds();
  return true;
}

CgroupOwner::~CgroupOwner() {
  if (!abandoned_) remove();
}

void CgroupOwner::settle(const CgroupHost& host, const CgroupHierarchy& hierarchy,
                         std::string_view owner, CgroupClaim& claim) {
  const CgroupPlace place = choose_place(hierarchy);
  if (!place.writable) return;  // the reports say so already
  OwnedHierarchy owned;
  owned.version = hierarchy.version;
  owned.base = place.directory;
  owned.path = place.directory / str(kOwnerPrefix, owner);
  for (const ControllerState& state : place.controllers) {
    if (state.usable) owned.controllers.insert(state.controller);
  }
  try {
    move_in(owned, hierarchy, place, claim);
  } catch (const SystemError& error) {
    for (const Controller controller : owned.controllers)
      mark_missing(controller, error.what(), kMendRefusal);
    move_out(owned);
    return;
  }
  if (owned.version == CgroupVersion::v2) {
    for (const auto& [controller, reason] : enable_all(owned, place))
      mark_missing(controller, reason, kMendRefusal);
  } else if (owned.controllers.contains(Controller::cpu)) {
    owned.most_cpus = cpus_of_ancestors(owned.base);
  }
  if (owned.controllers.contains(Controller::memory)) {
    const bool unified = owned.version == CgroupVersion::v2;
    owned.memory.swap =
        exists(owned.directory, unified ? "memory.swap.max" : "memory.memsw.limit_in_bytes");
    owned.memory.tcp = !unified && exists(owned.directory, "memory.kmem.tcp.limit_in_bytes");
    const std::optional<Gap> gap = find_gap(host, owned);
    owned.memory_is_bounded = !gap;
    if (gap) mark_missing(Controller::memory, gap->what, gap->fix);
  }
  directories_->hierarchies.push_back(std::move(owned));
}

void CgroupOwner::mark_missing(Controller controller, std::string detail, std::string fix) {
  if (controller == Controller::cpuacct) return;
  for (model::LayerReport& report : reports_) {
    if (report.layer != layer_of(controller)) continue;
    report = {.layer = report.layer,
              .state = model::LayerState::missing,
              .detail = std::move(detail),
              .fix = std::move(fix)};
    return;
  }
}

BoxCgroup CgroupOwner::create(std::string_view name, const CgroupLimits& limits) const {
  check_name("box", name);
  BoxCgroup box(directories_, std::string(name));
  box.limits_ = limits;
  for (std::size_t i = 0; i < directories_->hierarchies.size(); ++i) box.add_leaf(i);
  return box;
}

CgroupOwner::Found CgroupOwner::find_boxes() const {
  Found boxes;
  for (const OwnedHierarchy& owned : directories_->hierarchies) {
    for (const std::string& name : child_cgroups(owned.directory.get())) {
      std::set<std::uint64_t>& beside = boxes[name.substr(0, name.find('.'))];
      if (const auto id = find_group_beside(name)) beside.insert(*id);
    }
  }
  return boxes;
}

// One that is not whole is no use to anybody, and nothing of it is removed here.
BoxCgroup CgroupOwner::adopt(std::string_view name, const CgroupLimits& limits,
                             const std::set<std::uint64_t>& beside) const {
  check_name("box", name);
  BoxCgroup box(directories_, std::string(name));
  try {
    for (std::size_t i = 0; i < directories_->hierarchies.size(); ++i) box.find_leaf(i);
  } catch (...) {
    box.abandon();
    throw;
  }
  box.limits_ = limits;
  box.groups_ = beside;
  box.find_groups_within();
  return box;
}

void CgroupOwner::remove_boxes(const Found& boxes) const {
  const Deadline deadline = Clock::now() + kSweepPatience;
  for (const OwnedHierarchy& owned : directories_->hierarchies) {
    for (const auto& [name, beside] : boxes) {
      remove_tree(owned.directory.get(), name, deadline);
      for (const std::uint64_t id : beside) {
        remove_tree(owned.directory.get(), group_beside(name, id), deadline);
      }
    }
  }
}

bool CgroupOwner::remove() {
  bool gone = true;
  for (OwnedHierarchy& owned : directories_->hierarchies) gone = move_out(owned) && gone;
  return gone;
}

std::set<std::string> CgroupOwner::sweep(const CgroupHost& host, const IsLive& is_live) {
  std::set<std::string> left;
  for (const CgroupHierarchy& hierarchy : host.hierarchies) {
    sweep_directory(hierarchy.base, hierarchy.own, is_live, left);
    // Only on v2 does an owner ever go to the root of the hierarchy.
    if (hierarchy.version == CgroupVersion::v2 && !hierarchy.top.empty()) {
      sweep_directory(hierarchy.top, hierarchy.own, is_live, left);
    }
  }
  return left;
}

}  // namespace caisson::backend::native
