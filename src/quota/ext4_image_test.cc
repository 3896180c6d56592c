#include "quota/ext4_image.h"

#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include "quota/scene_for_test.h"

namespace caisson::quota {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

TEST(Ext4Size, HasRoomForWhatExt4NeedsItself) {
  const Ext4Size size = ext4_size({.bytes = 64 * kMiB, .inodes = 1000});
  EXPECT_EQ(size.inodes, 1000 + kOwnInodes);
  EXPECT_EQ(size.journal_mib, 4u);
  EXPECT_GT(size.bytes, 70 * kMiB);
  EXPECT_LT(size.bytes, 76 * kMiB);
  EXPECT_EQ(size.bytes % kMiB, 0u);
}

TEST(Ext4Size, KeepsNoMoreThanSixteenMegabytesBack) {
  const std::uint64_t bytes = 1ull << 40;
  const Ext4Size size = ext4_size({.bytes = bytes, .inodes = 100'000});
  EXPECT_EQ(size.journal_mib, 16u);
  EXPECT_LT(size.bytes - bytes, bytes / 1000);
}

TEST(Ext4Size, HasAsManyGroupsAsTheInodesNeed) {
  EXPECT_GE(ext4_size({.bytes = kMiB, .inodes = 1'000'000}).bytes, kMiB * 31 * 128);
}

// What mkfs makes of it, and not what we think it does.
TEST(Ext4Image, HasTheRoomThatWasAskedFor) {
  if (const std::string reason = reason_to_skip("loop"); !reason.empty()) GTEST_SKIP() << reason;
  for (const Limit capacity : {Limit{kMiB, 16}, Limit{3 * kMiB, 50'000}, Limit{100 * kMiB, 1000},
                               Limit{255 * kMiB, 100'000}, Limit{256 * kMiB, 10},
                               Limit{5000 * kMiB, 300'000}, Limit{100'000 * kMiB, 1'000'000}}) {
    SCOPED_TRACE(str(capacity.bytes, " bytes, ", capacity.inodes, " inodes"));
    const Scene scene;
    make_ext4_image(scene / "image", capacity);
    const LoopDevice device = make_loop_device(scene / "image");
    std::filesystem::create_directory(scene / "m");
    check_syscall("mount",
                  ::mount(device.path.c_str(), (scene / "m").c_str(), "ext4", 0, "noinit_itable"));
    struct statvfs room {};
    check_syscall("statvfs", ::statvfs((scene / "m").c_str(), &room));
    EXPECT_GE(room.f_bavail * room.f_frsize, capacity.bytes);
    EXPECT_GE(room.f_ffree + 11, capacity.inodes + kOwnInodes);
  }
}

std::string superblock() {
  std::string bytes(2048, '\0');
  bytes[1024 + 0x38] = '\x53';
  bytes[1024 + 0x39] = '\xef';
  bytes[1024 + 0x3a] = 1;
  return bytes;
}

TEST(Ext4Image, NeedsACheckUnlessItWasUnmountedCleanly) {
  EXPECT_FALSE(needs_check(superblock(), "image"));
  std::string unclean = superblock();
  unclean[1024 + 0x3a] = 0;
  EXPECT_TRUE(needs_check(unclean, "image"));
  std::string with_errors = superblock();
  with_errors[1024 + 0x3a] = 3;
  EXPECT_TRUE(needs_check(with_errors, "image"));
  std::string with_journal_to_replay = superblock();
  with_journal_to_replay[1024 + 0x60] = 4;
  EXPECT_TRUE(needs_check(with_journal_to_replay, "image"));
}

TEST(Ext4Image, IsRefusedWithoutASuperblock) {
  EXPECT_THROW(needs_check("", "image"), Error);
  EXPECT_THROW(needs_check(std::string(2048, '\0'), "image"), Error);
}

}  // namespace
}  // namespace caisson::quota
