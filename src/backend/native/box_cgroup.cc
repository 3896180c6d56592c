// The groups of one box. What they lie in is the owner's, see cgroup.cc.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backend/native/cgroup.h"
#include "backend/native/cgroup_kill.h"
#include "backend/native/owned_hierarchy.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace {

constexpr std::string_view kGroupPrefix = "p-";

std::string group_within(const std::string& box, std::uint64_t id) {
  return str(box, "/", kGroupPrefix, id);
}

std::optional<std::uint64_t> find_id(std::string_view name) {
  if (!name.starts_with(kGroupPrefix)) return std::nullopt;
  const auto id = parse_integer(name.substr(kGroupPrefix.size()));
  if (!id || *id <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(*id);
}

UniqueFd open_leaf(const OwnedHierarchy& hierarchy, const std::string& name) {
  return UniqueFd(
      ::openat(hierarchy.directory.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

[[noreturn]] void refuse_gone(const std::string& path) {
  throw Error(ErrorCode::box_lost, str("control group ", path, " is gone"));
}

UniqueFd open_entry(const OwnedHierarchy& hierarchy, const UniqueFd& leaf) {
  return open_file_at(leaf.get(), entry_file(hierarchy.version), O_WRONLY);
}

}  // namespace

std::string group_beside(const std::string& box, std::uint64_t id) {
  return str(box, ".", kGroupPrefix, id);
}

std::optional<std::uint64_t> find_group_beside(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::nullopt : find_id(name.substr(dot + 1));
}

void refuse_own_memory() {
  throw Error(ErrorCode::isolation_unavailable,
              "a memory limit of its own cannot be enforced on this host: leave memory_mb out");
}

BoxCgroup::BoxCgroup(std::shared_ptr<const OwnerDirectories> owner, std::string name)
    : owner_(std::move(owner)), name_(std::move(name)) {}

BoxCgroup::BoxCgroup(BoxCgroup&&) noexcept = default;

BoxCgroup& BoxCgroup::operator=(BoxCgroup&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(name_, other.name_);
  std::swap(leaves_, other.leaves_);
  std::swap(memory_leaf_, other.memory_leaf_);
  std::swap(oom_kills_, other.oom_kills_);
  std::swap(gone_oom_kills_, other.gone_oom_kills_);
  std::swap(enforced_, other.enforced_);
  std::swap(limits_, other.limits_);
  std::swap(groups_, other.groups_);
  std::swap(unwanted_groups_, other.unwanted_groups_);
  return *this;
}

BoxCgroup::~BoxCgroup() {
  try_remove();
}

void BoxCgroup::add_leaf(std::size_t index) {
  const OwnedHierarchy& owned = owner_->hierarchies[index];
  if (::mkdirat(owned.directory.get(), name_.c_str(), 0755) < 0) {
    if (errno != EEXIST)
      throw SystemError(str("control group ", (owned.path / name_).native()), errno);
    throw Error(ErrorCode::internal_error,
                str("control group ", (owned.path / name_).native(), ": it exists already"));
  }
  leaves_ = index + 1;
  const UniqueFd leaf = open_leaf(owned, name_);
  check_syscall(name_, leaf.get());
  limit_leaf(index, leaf, limits_);
  take_leaf(index);
}

void BoxCgroup::limit_leaf(std::size_t index, const UniqueFd& leaf, const CgroupLimits& limits) {
  const OwnedHierarchy& owned = owner_->hierarchies[index];
  if (limits.memory_bytes > 0 && owned.controllers.contains(Controller::memory)) {
    limit_memory(leaf.get(), owned.version, owned.memory, limits.memory_bytes);
    if (owned.memory_is_bounded) enforced_.insert(model::Layer::memory_limit);
  }
  if (limits.pids > 0 && owned.controllers.contains(Controller::pids)) {
    limit_pids(leaf.get(), limits.pids);
    enforced_.insert(model::Layer::pids_limit);
  }
  if (limits.cpus > 0 && owned.controllers.contains(Controller::cpu)) {
    limit_cpus(leaf.get(), owned.version, cpu_bandwidth(std::min(limits.cpus, owned.most_cpus)));
    enforced_.insert(model::Layer::cpu_limit);
  }
}

void BoxCgroup::find_leaf(std::size_t index) {
  const OwnedHierarchy& owned = owner_->hierarchies[index];
  if (::faccessat(owned.directory.get(), name_.c_str(), F_OK, 0) < 0) {
    refuse_gone((owned.path / name_).native());
  }
  leaves_ = index + 1;
  take_leaf(index);
}

void BoxCgroup::take_leaf(std::size_t index) {
  if (owner_->hierarchies[index].controllers.contains(Controller::memory)) memory_leaf_ = index;
}

std::vector<UniqueFd> BoxCgroup::open_entries() const {
  std::vector<UniqueFd> entries;
  for (std::size_t i = 0; owner_ && i < leaves_; ++i) {
    const OwnedHierarchy& owned = owner_->hierarchies[i];
    entries.push_back(open_entry(owned, open_leaf(owned, name_)));
  }
  return entries;
}

// The file is not kept open: the kernel would keep a page for it, in every box.
std::uint64_t BoxCgroup::oom_kills() const {
  if (!memory_leaf_) return oom_kills_;
  std::uint64_t kills = gone_oom_kills_ + read_oom_kills(name_);
  for (const std::uint64_t id : groups_) kills += read_oom_kills(group_beside(name_, id));
  // Removed by somebody else: what was seen last holds.
  oom_kills_ = std::max(oom_kills_, kills);
  return oom_kills_;
}

std::uint64_t BoxCgroup::read_oom_kills(const std::string& group) const {
  const OwnedHierarchy& owned = owner_->hierarchies[*memory_leaf_];
  const bool unified = owned.version == CgroupVersion::v2;
  const std::string path = str(group, unified ? "/memory.events" : "/memory.oom_control");
  const UniqueFd file(::openat(owned.directory.get(), path.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[1024];
  const ssize_t length = ::read(file.get(), buffer, sizeof buffer);
  if (length <= 0) return 0;
  const std::string_view lines(buffer, static_cast<std::size_t>(length));
  return find_value(lines, "oom_kill").value_or(0);
}

CgroupUsage BoxCgroup::usage() const {
  CgroupUsage usage;
  for (std::size_t i = 0; owner_ && i < leaves_; ++i) {
    const OwnedHierarchy& owned = owner_->hierarchies[i];
    const UniqueFd leaf = open_leaf(owned, name_);
    if (!leaf) continue;
    const bool unified = owned.version == CgroupVersion::v2;
    const auto number = [&](const char* file) { return find_number(leaf.get(), file).value_or(0); };
    if (owned.controllers.contains(Controller::memory)) {
      usage.memory_bytes = number(unified ? "memory.current" : "memory.usage_in_bytes");
      usage.peak_memory_bytes = std::max(
          usage.memory_bytes, number(unified ? "memory.peak" : "memory.max_usage_in_bytes"));
    }
    if (owned.controllers.contains(Controller::pids)) usage.processes = number("pids.current");
    if (unified) {
      const std::string stat = find_control(leaf.get(), "cpu.stat").value_or("");
      if (const auto used = find_value(stat, "usage_usec")) {
        usage.cpu_time = std::chrono::microseconds(*used);
      }
    } else if (owned.controllers.contains(Controller::cpuacct) && !usage.cpu_time) {
      usage.cpu_time = std::chrono::microseconds(number("cpuacct.usage") / 1000);
    }
  }
  return usage;
}

bool BoxCgroup::kill_all() {
  bool complete = true;
  for (std::size_t i = 0; owner_ && i < leaves_; ++i) {
    const OwnedHierarchy& owned = owner_->hierarchies[i];
    const UniqueFd leaf(
        ::openat(owned.directory.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!leaf) continue;
    // The unified hierarchy comes first and is joined first: who is in any leaf is in that one.
    if (kill_subtree(leaf.get())) return true;
    complete = kill_members(leaf.get()) && complete;
  }
  return complete;
}

bool BoxCgroup::kill_at_once() {
  if (!owner_ || leaves_ == 0) return false;
  const UniqueFd leaf(::openat(owner_->hierarchies[0].directory.get(), name_.c_str(),
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return leaf && kill_subtree(leaf.get());
}

UniqueFd BoxCgroup::make_group_leaf(std::size_t index, std::uint64_t id,
                                    const CgroupLimits& limits) {
  const OwnedHierarchy& owned = owner_->hierarchies[index];
  const bool limited = limits.memory_bytes > 0 && owned.controllers.contains(Controller::memory);
  // In the hierarchies that neither limit nor end it, it is where the box is.
  if (!limited && index > 0) return open_entry(owned, open_leaf(owned, name_));
  const std::string name = limited ? group_beside(name_, id) : group_within(name_, id);
  if (::mkdirat(owned.directory.get(), name.c_str(), 0755) < 0) {
    if (errno == ENOENT) refuse_gone((owned.path / name_).native());
    throw SystemError(str("control group ", (owned.path / name).native()), errno);
  }
  groups_.insert(id);
  const UniqueFd leaf = open_leaf(owned, name);
  check_syscall(name, leaf.get());
  if (limited) limit_leaf(index, leaf, limits);
  return open_entry(owned, leaf);
}

std::vector<UniqueFd> BoxCgroup::make_group(std::uint64_t id, std::uint64_t memory_bytes) {
  if (memory_bytes > 0 && !memory_leaf_) refuse_own_memory();
  remove_unwanted_groups();
  CgroupLimits limits = limits_;
  limits.memory_bytes = memory_bytes;
  std::vector<UniqueFd> fds;
  try {
    for (std::size_t i = 0; owner_ && i < leaves_; ++i) {
      fds.push_back(make_group_leaf(i, id, limits));
    }
  } catch (...) {
    remove_group(id);
    throw;
  }
  return fds;
}

std::optional<bool> BoxCgroup::kill_group(std::uint64_t id) {
  if (!owner_ || !groups_.contains(id)) return std::nullopt;
  const OwnedHierarchy& owned = owner_->hierarchies[0];
  for (const std::string& name : {group_within(name_, id), group_beside(name_, id)}) {
    const UniqueFd leaf(
        ::openat(owned.directory.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!leaf) continue;
    if (!kill_subtree(leaf.get())) kill_members(leaf.get());
    return !has_members(leaf.get());
  }
  return std::nullopt;
}

void BoxCgroup::remove_group(std::uint64_t id) {
  if (groups_.contains(id)) unwanted_groups_.insert(id);
  remove_unwanted_groups();
}

void BoxCgroup::remove_unwanted_groups() {
  for (const std::uint64_t id : std::set<std::uint64_t>(unwanted_groups_)) try_remove_group(id);
}

void BoxCgroup::try_remove_group(std::uint64_t id) {
  if (!owner_) return;
  const std::uint64_t oom_kills = memory_leaf_ ? read_oom_kills(group_beside(name_, id)) : 0;
  bool gone = true;
  for (const OwnedHierarchy& owned : owner_->hierarchies) {
    for (const std::string& name : {group_within(name_, id), group_beside(name_, id)}) {
      const int removed = ::unlinkat(owned.directory.get(), name.c_str(), AT_REMOVEDIR);
      gone = (removed == 0 || errno == ENOENT) && gone;
    }
  }
  if (!gone) return;
  groups_.erase(id);
  unwanted_groups_.erase(id);
  gone_oom_kills_ += oom_kills;
}

std::uint64_t BoxCgroup::retain_groups(const std::set<std::uint64_t>& ids) {
  for (const std::uint64_t id : std::set<std::uint64_t>(groups_)) {
    if (ids.contains(id)) continue;
    kill_group(id);
    remove_group(id);
  }
  return groups_.empty() ? 0 : *groups_.rbegin();
}

void BoxCgroup::find_groups_within() {
  if (leaves_ == 0) return;
  const UniqueFd leaf = open_leaf(owner_->hierarchies[0], name_);
  if (!leaf) return;
  for (const std::string& name : child_cgroups(leaf.get())) {
    if (const auto id = find_id(name)) groups_.insert(*id);
  }
}

bool BoxCgroup::try_remove() {
  if (!owner_) return true;
  for (const std::uint64_t id : std::set<std::uint64_t>(groups_)) remove_group(id);
  while (leaves_ > 0) {
    const OwnedHierarchy& owned = owner_->hierarchies[leaves_ - 1];
    if (::unlinkat(owned.directory.get(), name_.c_str(), AT_REMOVEDIR) < 0 && errno != ENOENT)
      return false;
    --leaves_;
  }
  memory_leaf_.reset();
  owner_.reset();
  return true;
}

}  // namespace caisson::backend::native
