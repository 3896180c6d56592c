#pragma once
#include "backend/guest_box.h"

namespace caisson::backend {

// For a box of which there is only the conversation with its guest.
class NoResources final : public BoxResources {
 public:
  std::uint64_t oom_kills() override { return 0; }
  std::vector<UniqueFd> make_group(std::uint64_t, std::uint64_t) override { return {}; }
  std::optional<bool> kill_group(std::uint64_t) override { return std::nullopt; }
  void remove_group(std::uint64_t) override {}
  std::uint64_t retain_groups(const std::set<std::uint64_t>&) override { return 0; }
  BoxUsage usage() override { return {}; }
  Task<void> show(model::BoxSettings, model::MountSpec) override { co_return; }
  Task<void> hide(model::MountSpec) override { co_return; }
  void kill() override {}
  Task<void> release() override { co_return; }
  std::optional<Handover> handover() const override { return std::nullopt; }
  void abandon() override {}
};

}  // namespace caisson::backend
