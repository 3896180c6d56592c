#pragma once
#include <cstdint>
#include <vector>

#include "wire/launch.h"

// Which host ids the processes of boxes have. No process ever runs as an id of the file owners'
// range: it is how root and the other owners of files on the host look from inside, the same in
// every box. Each box has two ids of its own besides, for its guest and for its payload, and a
// third that its user namespaces belong to.
namespace caisson::backend::native {

// Ids inside every box.
inline constexpr std::uint32_t kPayloadId = 1000;
inline constexpr std::uint32_t kGuestId = 65533;
inline constexpr std::uint32_t kIdsInside = 65536;

// Host ids, above every range that Linux distributions hand out to users or containers.
inline constexpr std::uint32_t kFileOwnersBase = 0x70000000;
inline constexpr std::uint32_t kBoxIdsBase = kFileOwnersBase + kIdsInside;
inline constexpr std::uint32_t kBoxesPerOwner = 8192;
// Above the boxes' ids of all owners there can be.
inline constexpr std::uint32_t kAccountsBase = kBoxIdsBase + 4096 * kBoxesPerOwner * 2;

// The host ids of one box.
struct BoxIds {
  std::uint32_t guest = 0;
  std::uint32_t payload = 0;
  // What the kernel counts for a user goes up to who made the user namespace: were it root, a box
  // could use up root's. Who has this id would have every right over the box; no process ever does.
  std::uint32_t account = 0;
  bool operator==(const BoxIds&) const = default;
};

BoxIds box_ids(unsigned owner, unsigned slot);

// The map of a box's user namespace, for uids and gids alike.
std::vector<wire::IdRange> box_map(const BoxIds& ids);

// Owners on disk -> the file owners' range, so that root's files look like root's in every box.
std::vector<wire::IdRange> file_owners_map();

// As above, but files of `disk_owner` belong to the payload, and files the payload makes to
// `disk_owner`.
std::vector<wire::IdRange> workspace_map(std::uint32_t disk_owner, const BoxIds& ids);

}  // namespace caisson::backend::native
