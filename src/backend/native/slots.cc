#include "backend/native/slots.h"

#include "base/error.h"

namespace caisson::backend::native {

namespace {

// More of them would hold descriptors for boxes that may never be made.
constexpr std::size_t kKeptNamespaces = 64;

}  // namespace

Slots::Lease Slots::lease(std::unique_ptr<Slot> slot) {
  Slot* raw = slot.release();
  return {raw, [self = shared_from_this()](Slot* returned) {
            self->take_back(std::unique_ptr<Slot>(returned));
          }};
}

void Slots::take_back(std::unique_ptr<Slot> slot) {
  if (slot->user_namespace && free_.size() < kKeptNamespaces) {
    free_.push_back(std::move(slot));
  } else {
    free_indices_.push_back(slot->index);
  }
}

std::unique_ptr<Slot> Slots::make(unsigned index) const {
  auto slot = std::make_unique<Slot>();
  slot->index = index;
  slot->ids = box_ids(owner_, index);
  return slot;
}

std::unique_ptr<Slot> Slots::pick() {
  if (!free_.empty()) {
    std::unique_ptr<Slot> slot = std::move(free_.back());
    free_.pop_back();
    return slot;
  }
  if (!free_indices_.empty()) {
    const unsigned index = free_indices_.back();
    free_indices_.pop_back();
    return make(index);
  }
  if (next_ >= kBoxesPerOwner) {
    throw Error(ErrorCode::capacity_reached,
                "no more boxes: all host ids of this owner are in use");
  }
  return make(next_++);
}

Slots::Lease Slots::reserve(unsigned index) {
  for (; next_ <= index; ++next_) free_indices_.push_back(next_);
  std::erase(free_indices_, index);
  return lease(make(index));
}

Task<Slots::Lease> Slots::take(std::shared_ptr<LauncherClient> launcher) {
  Lease slot = lease(pick());
  if (slot->user_namespace) co_return slot;
  // Inside the launcher's own namespace an ordinary user is id 0, and has no other, for accounts
  // neither.
  const std::vector<wire::IdRange> map =
      own_ids_ ? box_map(slot->ids)
               : std::vector<wire::IdRange>{{.inside = kPayloadId, .outside = 0, .count = 1}};
  wire::CreateUserNamespace request{
      .uids = map, .gids = map, .account = own_ids_ ? slot->ids.account : 0};
  slot->user_namespace = co_await launcher->create_user_namespace(std::move(request));
  co_return slot;
}

Task<int> Slots::workspace_map(Lease slot, std::shared_ptr<LauncherClient> launcher,
                               std::uint32_t uid, std::uint32_t gid) {
  const std::pair<std::uint32_t, std::uint32_t> key(uid, gid);
  if (const auto found = slot->workspace_maps.find(key); found != slot->workspace_maps.end()) {
    co_return found->second.get();
  }
  wire::CreateUserNamespace request{.uids = native::workspace_map(uid, slot->ids),
                                    .gids = native::workspace_map(gid, slot->ids),
                                    .account = slot->ids.account};
  UniqueFd made = co_await launcher->create_user_namespace(std::move(request));
  const int fd = made.get();
  slot->workspace_maps[key] = std::move(made);
  co_return fd;
}

}  // namespace caisson::backend::native
