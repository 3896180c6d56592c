#include "backend/native/identity.h"

namespace caisson::backend::native {

BoxIds box_ids(unsigned owner, unsigned slot) {
  const std::uint32_t box = owner * kBoxesPerOwner + slot;
  const std::uint32_t first = kBoxIdsBase + box * 2;
  return {.guest = first, .payload = first + 1, .account = kAccountsBase + box};
}

std::vector<wire::IdRange> box_map(const BoxIds& ids) {
  return {
      {.inside = 0, .outside = kFileOwnersBase, .count = kPayloadId},
      {.inside = kPayloadId, .outside = ids.payload, .count = 1},
      {.inside = kPayloadId + 1,
       .outside = kFileOwnersBase + kPayloadId + 1,
       .count = kGuestId - kPayloadId - 1},
      {.inside = kGuestId, .outside = ids.guest, .count = 1},
      {.inside = kGuestId + 1,
       .outside = kFileOwnersBase + kGuestId + 1,
       .count = kIdsInside - kGuestId - 1},
  };
}

std::vector<wire::IdRange> file_owners_map() {
  return {{.inside = 0, .outside = kFileOwnersBase, .count = kIdsInside}};
}

std::vector<wire::IdRange> workspace_map(std::uint32_t disk_owner, const BoxIds& ids) {
  const wire::IdRange owner{.inside = disk_owner, .outside = ids.payload, .count = 1};
  if (disk_owner >= kIdsInside) {
    return {{.inside = 0, .outside = kFileOwnersBase, .count = kIdsInside}, owner};
  }
  std::vector<wire::IdRange> map;
  if (disk_owner > 0) map.push_back({.inside = 0, .outside = kFileOwnersBase, .count = disk_owner});
  map.push_back(owner);
  if (disk_owner + 1 < kIdsInside) {
    map.push_back({.inside = disk_owner + 1,
                   .outside = kFileOwnersBase + disk_owner + 1,
                   .count = kIdsInside - disk_owner - 1});
  }
  return map;
}

}  // namespace caisson::backend::native
