#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/guest_box.h"
#include "backend/native/cgroup.h"
#include "backend/native/live_mounts.h"
#include "backend/native/slots.h"
#include "base/child_process.h"

namespace caisson::backend::native {

// Cgroups of boxes that were dropped rather than destroyed, and that were still busy then.
using PendingCgroups = std::vector<BoxCgroup>;

// What a native box holds on the host: its process 1, its control groups, its ids.
class NativeResources final : public BoxResources {
 public:
  // The name is that of the box among its owner's, and of its groups if it has any. Without
  // `mounts` what it shows cannot be changed.
  NativeResources(boost::asio::any_io_executor executor, std::string name, Slots::Lease slot,
                  std::optional<BoxCgroup> cgroup, std::shared_ptr<PendingCgroups> pending_cgroups,
                  std::shared_ptr<LiveMounts> mounts);
  ~NativeResources() override;

  void adopt(ChildProcess guest) { guest_ = std::move(guest); }
  // Of an ordinary user's box, which has no other way to it.
  void keep_mount_namespace(UniqueFd mounts) { mount_namespace_ = std::move(mounts); }
  const std::optional<BoxCgroup>& cgroup() const { return cgroup_; }
  const Slot& slot() const { return *slot_; }
  bool ended() const { return !guest_.running() || guest_.ended(); }
  const std::string& name() const { return name_; }
  pid_t guest() const { return guest_.running() ? guest_.pid() : -1; }

  // kill(), for a reason that whoever uses the box is told.
  void end(std::string reason);

  std::uint64_t oom_kills() override;
  std::vector<UniqueFd> make_group(std::uint64_t id, std::uint64_t memory_bytes) override;
  std::optional<bool> kill_group(std::uint64_t id) override;
  void remove_group(std::uint64_t id) override;
  std::uint64_t retain_groups(const std::set<std::uint64_t>& ids) override;
  BoxUsage usage() override;
  Task<void> show(model::BoxSettings settings, model::MountSpec mount) override;
  Task<void> hide(model::MountSpec mount) override;
  void kill() override;
  std::string end_reason() const override { return end_reason_; }
  Task<void> release() override;
  std::optional<Handover> handover() const override;
  void abandon() override;

 private:
  LiveMounts::Target target() const;

  boost::asio::any_io_executor executor_;
  std::string name_;
  // Gone in this order: processes, then their cgroups, then their ids.
  Slots::Lease slot_;
  std::optional<BoxCgroup> cgroup_;
  ChildProcess guest_;
  UniqueFd mount_namespace_;
  std::shared_ptr<PendingCgroups> pending_;
  std::shared_ptr<LiveMounts> mounts_;
  std::string end_reason_;
};

// What handover() says of a box. Throws protocol_error on anything else.
struct NativeDescription {
  std::string name;
  bool has_cgroup = false;
  unsigned slot = 0;
  pid_t pid = -1;
};
NativeDescription read_description(const std::string& description);

}  // namespace caisson::backend::native
