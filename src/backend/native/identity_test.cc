#include "backend/native/identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "backend/native/owner.h"

namespace caisson::backend::native {
namespace {

constexpr std::uint32_t kLastOwner = Owner::kMaxOwners - 1;
constexpr std::uint32_t kLastSlot = kBoxesPerOwner - 1;

// Boxes at the edges and in the middle of the space of ids.
std::vector<BoxIds> some_boxes() {
  std::vector<BoxIds> boxes;
  for (const unsigned owner : {0u, 1u, 2u, 2047u, kLastOwner - 1, kLastOwner}) {
    for (const unsigned slot : {0u, 1u, 4095u, kLastSlot - 1, kLastSlot}) {
      boxes.push_back(box_ids(owner, slot));
    }
  }
  return boxes;
}

std::vector<wire::IdRange> all_maps(const BoxIds& ids) {
  std::vector<wire::IdRange> all = box_map(ids);
  for (const auto& range : file_owners_map()) all.push_back(range);
  return all;
}

// No id of either side is mapped twice, and nothing wraps around.
void maps_cleanly(const std::vector<wire::IdRange>& map) {
  for (std::size_t i = 0; i < map.size(); ++i) {
    const std::uint64_t count = map[i].count;
    EXPECT_GT(count, 0u);
    EXPECT_LE(map[i].inside + count, 0xffffffffull);
    EXPECT_LE(map[i].outside + count, 0xffffffffull);
    for (std::size_t j = i + 1; j < map.size(); ++j) {
      const std::uint64_t other = map[j].count;
      EXPECT_TRUE(map[i].inside + count <= map[j].inside || map[j].inside + other <= map[i].inside)
          << "inside " << map[i].inside << " and " << map[j].inside;
      EXPECT_TRUE(map[i].outside + count <= map[j].outside ||
                  map[j].outside + other <= map[i].outside)
          << "outside " << map[i].outside << " and " << map[j].outside;
    }
  }
}

// The id outside of an id inside; 0, which no map contains, when there is none.
std::uint32_t outside_of(const std::vector<wire::IdRange>& map, std::uint32_t inside) {
  for (const wire::IdRange& range : map) {
    if (inside >= range.inside && inside - range.inside < range.count) {
      return range.outside + (inside - range.inside);
    }
  }
  return 0;
}

const std::uint32_t kDiskOwners[] = {
    0,     1,     999,     1000,       1001,       65532,      65533,      65534,      65535,
    65536, 65537, 100'000, 0x6fffffff, 0x70000000, 0x70010000, 0x70010001, 0x7fffffff, 0xfffffffe};

TEST(Identity, GivesEveryBoxIdsOfItsOwn) {
  std::set<std::uint32_t> seen;
  for (unsigned owner = 0; owner < 3; ++owner) {
    for (unsigned slot = 0; slot < kBoxesPerOwner; ++slot) {
      const BoxIds ids = box_ids(owner, slot);
      EXPECT_TRUE(seen.insert(ids.guest).second);
      EXPECT_TRUE(seen.insert(ids.payload).second);
      EXPECT_TRUE(seen.insert(ids.account).second);
    }
  }
}

TEST(Identity, KeepsTheIdsOfOwnersApart) {
  for (unsigned owner = 0; owner < kLastOwner; ++owner) {
    const BoxIds last = box_ids(owner, kLastSlot);
    const BoxIds first_of_next = box_ids(owner + 1, 0);
    EXPECT_LT(std::max(last.guest, last.payload),
              std::min(first_of_next.guest, first_of_next.payload));
  }
}

TEST(Identity, StaysAboveTheIdsOfUsersAndInsideTheSpaceOfIds) {
  for (const BoxIds& ids : some_boxes()) {
    for (const std::uint32_t id : {ids.guest, ids.payload, ids.account}) {
      EXPECT_GE(id, kFileOwnersBase + kIdsInside);
      EXPECT_LT(id, 0x80000000u);  // some file systems and tools take ids as signed numbers
    }
  }
}

TEST(Identity, MapsABoxWithoutOverlap) {
  for (const BoxIds& ids : some_boxes()) maps_cleanly(box_map(ids));
  maps_cleanly(file_owners_map());
}

TEST(Identity, MapsEveryIdInsideABox) {
  const BoxIds ids = box_ids(3, 17);
  const std::vector<wire::IdRange> map = box_map(ids);
  std::uint64_t total = 0;
  for (const wire::IdRange& range : map) total += range.count;
  EXPECT_EQ(total, kIdsInside);
  EXPECT_EQ(outside_of(map, kPayloadId), ids.payload);
  EXPECT_EQ(outside_of(map, kGuestId), ids.guest);
  for (const std::uint32_t id : {0u, 1u, 999u, 1001u, 65532u, 65534u, 65535u}) {
    EXPECT_EQ(outside_of(map, id), kFileOwnersBase + id) << id;
  }
}

TEST(Identity, NeverMapsToAnIdOfTheHostsUsers) {
  for (const BoxIds& ids : some_boxes()) {
    for (const wire::IdRange& range : all_maps(ids)) EXPECT_GT(range.outside, 65535u);
    for (const std::uint32_t disk_owner : kDiskOwners) {
      for (const wire::IdRange& range : workspace_map(disk_owner, ids)) {
        EXPECT_GT(range.outside, 65535u) << disk_owner;
      }
    }
  }
}

// Root's files look like root's in every box, and no process can become their owner.
TEST(Identity, RunsNoProcessAsAnOwnerOfFiles) {
  for (const BoxIds& ids : some_boxes()) {
    for (const wire::IdRange& range : file_owners_map()) {
      for (const std::uint32_t id : {ids.guest, ids.payload}) {
        EXPECT_TRUE(id < range.outside || id >= range.outside + range.count);
      }
    }
  }
  EXPECT_EQ(outside_of(file_owners_map(), 0), outside_of(box_map(box_ids(0, 0)), 0));
}

// Who has the id that made a user namespace has every right over it.
TEST(Identity, LetsNoProcessBecomeTheAccountOfABox) {
  EXPECT_GT(kAccountsBase, box_ids(kLastOwner, kLastSlot).payload);
  for (const BoxIds& ids : some_boxes()) {
    EXPECT_GE(ids.account, kAccountsBase);
    for (const BoxIds& other : some_boxes()) {
      for (const wire::IdRange& range : all_maps(other)) {
        EXPECT_TRUE(ids.account < range.outside || ids.account >= range.outside + range.count);
      }
    }
  }
}

TEST(Identity, GivesAWorkspaceToThePayload) {
  const BoxIds ids = box_ids(1, 2);
  for (const std::uint32_t disk_owner : kDiskOwners) {
    const std::vector<wire::IdRange> map = workspace_map(disk_owner, ids);
    maps_cleanly(map);
    EXPECT_EQ(outside_of(map, disk_owner), ids.payload) << disk_owner;
    for (const std::uint32_t other : {0u, 1u, 1000u, 65533u, 65535u}) {
      if (other == disk_owner) continue;
      EXPECT_EQ(outside_of(map, other), kFileOwnersBase + other) << disk_owner;
    }
  }
}

TEST(Identity, NeverShowsAWorkspaceToTheGuest) {
  const BoxIds ids = box_ids(1, 2);
  for (const std::uint32_t disk_owner : kDiskOwners) {
    for (const wire::IdRange& range : workspace_map(disk_owner, ids)) {
      EXPECT_TRUE(ids.guest < range.outside || ids.guest >= range.outside + range.count);
    }
  }
}

// The kernel takes 340 ranges; more than a few would cost every lookup of a file's owner.
TEST(Identity, NeedsFewRanges) {
  EXPECT_LE(box_map(box_ids(0, 0)).size(), 5u);
  for (const std::uint32_t disk_owner : kDiskOwners) {
    EXPECT_LE(workspace_map(disk_owner, box_ids(0, 0)).size(), 3u) << disk_owner;
  }
}

}  // namespace
}  // namespace caisson::backend::native
