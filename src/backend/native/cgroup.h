#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/native/cgroup_claim.h"
#include "backend/native/cgroup_host.h"
#include "backend/native/cgroup_limits.h"
#include "base/unique_fd.h"
#include "model/isolation.h"

namespace caisson::backend::native {

// The directories of one owner; its boxes hold on to them.
struct OwnerDirectories;

struct CgroupUsage {
  std::uint64_t memory_bytes = 0;
  std::uint64_t peak_memory_bytes = 0;  // at least: kernels before 5.19 keep no peak on v2
  std::uint64_t processes = 0;          // and threads
  std::optional<std::chrono::microseconds> cpu_time;  // none: no hierarchy counts it
};

// For a process that is to have a memory limit of its own, where there is none for boxes.
[[noreturn]] void refuse_own_memory();

// The control groups of one box: a leaf in every hierarchy of its owner. May outlive the owner
// object.
class BoxCgroup {
 public:
  BoxCgroup(BoxCgroup&&) noexcept;
  BoxCgroup& operator=(BoxCgroup&&) noexcept;
  ~BoxCgroup();  // one attempt to remove; what is left is the next sweep's

  // Whether there is no hierarchy at all that it could be in.
  bool empty() const { return leaves_ == 0; }
  // entry_file() of every leaf, opened for writing: a process enters by writing "0" to each, in
  // this order. The permission is that of the opener, so the descriptors work from inside a box's
  // namespaces. They are not kept here: thousands of boxes would be short of descriptors.
  std::vector<UniqueFd> open_entries() const;
  const std::string& name() const { return name_; }

  // The limits that were asked for, written and read back.
  const std::set<model::Layer>& enforced() const { return enforced_; }

  // Processes of the box that the kernel killed for memory so far.
  std::uint64_t oom_kills() const;

  CgroupUsage usage() const;  // zeros for what no hierarchy counts, and after removal

  // SIGKILL to every process inside, without waiting for their end. False when some may have
  // escaped: call it again.
  bool kill_all();

  // The same in one stroke of the kernel (cgroup.kill); false, and nothing done, where there is
  // none.
  bool kill_at_once();

  // A group of processes among those of the box. It lies within the box's and shares its limits;
  // only with a memory limit of its own it lies beside the box's memory, and on v2 has the box's
  // other limits once more. Gives what to enter it by, as open_entries(). Throws
  // isolation_unavailable when no hierarchy can limit memory.
  std::vector<UniqueFd> make_group(std::uint64_t id, std::uint64_t memory_bytes);
  // SIGKILL to every process of the group. False while some are left: call it again. Nothing when
  // there is no such group.
  std::optional<bool> kill_group(std::uint64_t id);
  // One attempt; more of them when other groups are made and removed, the last with the box.
  void remove_group(std::uint64_t id);

  // Kills and removes all groups but these. Gives the highest id among those that are left then,
  // because a process is still ending in them or because they are these; 0 without any.
  std::uint64_t retain_groups(const std::set<std::uint64_t>& ids);

  // One attempt. False while processes are still inside, ending ones included; true from then on.
  bool try_remove();

  // Nothing of it is removed from now on, and nothing of it can be asked.
  void abandon() {
    memory_leaf_.reset();
    owner_.reset();
  }

 private:
  friend class CgroupOwner;
  BoxCgroup(std::shared_ptr<const OwnerDirectories> owner, std::string name);
  void add_leaf(std::size_t index);
  void find_leaf(std::size_t index);
  void take_leaf(std::size_t index);
  void limit_leaf(std::size_t index, const UniqueFd& leaf, const CgroupLimits& limits);
  UniqueFd make_group_leaf(std::size_t index, std::uint64_t id, const CgroupLimits& limits);
  void remove_unwanted_groups();
  void try_remove_group(std::uint64_t id);
  std::uint64_t read_oom_kills(const std::string& group) const;
  void find_groups_within();

  std::shared_ptr<const OwnerDirectories> owner_;  // null when moved from or removed
  std::string name_;
  std::size_t leaves_ = 0;                  // made in the first `leaves_` hierarchies of the owner
  std::optional<std::size_t> memory_leaf_;  // the hierarchy that counts OOM kills
  mutable std::uint64_t oom_kills_ = 0;
  std::uint64_t gone_oom_kills_ = 0;  // of groups that have been removed
  std::set<model::Layer> enforced_;
  CgroupLimits limits_;
  std::set<std::uint64_t> groups_;
  std::set<std::uint64_t> unwanted_groups_;  // of them: processes were still ending in there
};

// The place of one owner of boxes (a daemon, or one embedded run) in the host's control groups:
// "caisson-<owner>" in every hierarchy where it can be made. On v2 this may move the process itself
// to "caisson-<owner>.home". A hierarchy that cannot be had is no error: reports() tells.
class CgroupOwner {
 public:
  // Settles in the directories that were claimed for this name; those of the others that nobody
  // else has are taken over as they are. Throws validation_error unless the name is of
  // [A-Za-z0-9_-].
  CgroupOwner(const CgroupHost& host, std::string_view owner, CgroupClaim claim = {});
  CgroupOwner(const CgroupOwner&) = delete;
  CgroupOwner& operator=(const CgroupOwner&) = delete;
  ~CgroupOwner();  // remove()

  // Limits without a controller are skipped: enforced() of the box tells. Throws
  // isolation_unavailable when the kernel refuses a limit, internal_error when the name is taken;
  // nothing is left then.
  BoxCgroup create(std::string_view name, const CgroupLimits& limits) const;

  // What an owner before us left in the owner's directories: boxes, or parts of them, by name, each
  // with the ids of the groups that lie beside it. Looks at every directory once.
  using Found = std::map<std::string, std::set<std::uint64_t>>;
  Found find_boxes() const;

  // The groups of a box that an owner before us made under this name, with these limits; `beside`
  // is what find_boxes() told of it. Throws box_lost when they are gone. May be called by any
  // thread.
  BoxCgroup adopt(std::string_view name, const CgroupLimits& limits,
                  const std::set<std::uint64_t>& beside) const;

  // Ends and removes all that is left of these boxes. May be called by any thread.
  void remove_boxes(const Found& boxes) const;

  // memory_limit, pids_limit and cpu_limit as boxes of this owner get them.
  const std::vector<model::LayerReport>& reports() const { return reports_; }

  // entry_file() of the cgroups this process lives in now, open for writing: what entered a box
  // comes back by writing "0" to each. The reverse of the order of open_entries(), so that a
  // process is in the hierarchy that kills in one stroke for as long as it is in any other.
  std::span<const int> home_fds() const { return home_fds_; }

  // The owner's directories. Whoever holds one holds the lock on it: for the next owner, or for a
  // process that cleans up when this one is gone.
  std::span<const int> directory_fds() const { return directory_fds_; }

  // Makes those of its directories again that somebody has removed; false when all are there. Boxes
  // that are made from now on are in them, and the descriptors are others. Throws when another
  // owner has taken the place of one.
  bool renew();

  // The owner's directories are somebody else's from now on.
  void abandon() { abandoned_ = true; }

  // Removes the owner's directories and brings this process back to where it was. False while boxes
  // are inside. Calling it again is fine; create nothing afterwards.
  bool remove();

  // Removes what owners left behind, wherever an owner in this process's cgroup would have put it:
  // of those that `is_live` knows nothing of and that hold no lock, what no process lives in. What
  // lives is not ours to end: guests end their boxes by themselves. Gives the names of dead owners
  // that are not wholly gone yet.
  using IsLive = std::function<bool(std::string_view owner)>;
  static std::set<std::string> sweep(const CgroupHost& host, const IsLive& is_live);

 private:
  void settle(const CgroupHost& host, const CgroupHierarchy& hierarchy, std::string_view owner,
              CgroupClaim& claim);
  void list_fds();
  void mark_missing(Controller controller, std::string detail, std::string fix);

  std::shared_ptr<OwnerDirectories> directories_;
  std::vector<model::LayerReport> reports_;
  std::vector<int> home_fds_;
  std::vector<int> directory_fds_;
  bool abandoned_ = false;
};

}  // namespace caisson::backend::native
