#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "backend/guest_box.h"
#include "backend/native/cgroup.h"
#include "backend/native/slots.h"
#include "base/child_process.h"

namespace caisson::backend::native {

// Cgroups of boxes that were dropped rather than destroyed, and that were still busy then.
using Graveyard = std::vector<BoxCgroup>;

// What a native box holds on the host: its process 1, its control groups, its ids.
class NativeResources final : public BoxResources {
 public:
  NativeResources(boost::asio::any_io_executor executor, Slots::Lease slot,
                  std::optional<BoxCgroup> cgroup, std::shared_ptr<Graveyard> graveyard);
  ~NativeResources() override;

  void adopt(ChildProcess guest) { guest_ = std::move(guest); }
  const std::optional<BoxCgroup>& cgroup() const { return cgroup_; }
  const Slot& slot() const { return *slot_; }

  std::uint64_t oom_kills() override;
  BoxUsage usage() override;
  void kill() override;
  Task<void> release() override;

 private:
  boost::asio::any_io_executor executor_;
  // Gone in this order: processes, then their cgroups, then their ids.
  Slots::Lease slot_;
  std::optional<BoxCgroup> cgroup_;
  ChildProcess guest_;
  std::shared_ptr<Graveyard> graveyard_;
};

}  // namespace caisson::backend::native
