#include "quota/mounted.h"

#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "quota/mount.h"
#include "quota/scene_for_test.h"

namespace caisson::quota {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;
constexpr Limit kLimit{.bytes = 32 * kMiB, .inodes = 1000};

class MountedQuota : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string reason = reason_to_skip(GetParam()); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    scene_ = std::make_unique<Scene>();
    directory_ = *scene_ / "tenants/a";
    start();
  }

  // A daemon that begins where the last one ended.
  Recovery start() {
    driver_ = mounted_driver(GetParam(), state());
    return driver_->recover();
  }

  std::filesystem::path state() const { return *scene_ / "quota"; }
  std::vector<std::string> mounts() const { return mounts_below(scene_->path()); }
  std::vector<std::string> loops() const { return loop_devices_below(scene_->path()); }
  bool is_tmpfs() const { return std::string(GetParam()) == "tmpfs"; }

  std::unique_ptr<Scene> scene_;
  std::filesystem::path directory_;
  std::unique_ptr<Driver> driver_;
};

TEST_P(MountedQuota, StopsWritersAtTheLimitOfBytes) {
  driver_->apply(directory_, kLimit);
  int error_number = 0;
  const std::uint64_t written = fill_bytes(directory_ / "big", 2 * kLimit.bytes, error_number);
  EXPECT_EQ(error_number, ENOSPC);
  EXPECT_TRUE(is_within_a_percent(written, kLimit.bytes)) << written;
  const Usage usage = driver_->usage(directory_);
  EXPECT_TRUE(is_within_a_percent(usage.used.bytes, kLimit.bytes)) << usage.used.bytes;
  EXPECT_EQ(usage.limit, kLimit);
  std::filesystem::remove(directory_ / "big");
  EXPECT_LT(driver_->usage(directory_).used.bytes, kMiB);
  write_text(directory_ / "after", "room again");
}

TEST_P(MountedQuota, HasRoomForAFileOfTheWholeLimit) {
  driver_->apply(directory_, kLimit);
  write_text(directory_ / "big", std::string(kLimit.bytes, 'x'));
  EXPECT_TRUE(is_within_a_percent(driver_->usage(directory_).used.bytes, kLimit.bytes));
}

TEST_P(MountedQuota, StopsWritersAtTheLimitOfInodes) {
  driver_->apply(directory_, kLimit);
  int error_number = 0;
  const std::uint64_t made = fill_inodes(directory_, 2 * kLimit.inodes, error_number);
  EXPECT_EQ(error_number, ENOSPC);
  EXPECT_EQ(made, kLimit.inodes);
  EXPECT_EQ(driver_->usage(directory_).used.inodes, kLimit.inodes);
}

TEST_P(MountedQuota, LeavesTheHostsDiskAlone) {
  driver_->apply(directory_, kLimit);
  int error_number = 0;
  fill_bytes(directory_ / "big", 2 * kLimit.bytes, error_number);
  const UniqueFd fd = open_file(directory_, O_RDONLY | O_DIRECTORY);
  check_syscall("syncfs", ::syncfs(fd.get()));
  std::uint64_t on_disk = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(state())) {
    struct stat status {};
    check_syscall("stat", ::lstat(entry.path().c_str(), &status));
    on_disk += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  EXPECT_LT(on_disk, kLimit.bytes + 8 * kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(str("/proc/self/fd/", open_uncovered(directory_).get())));
}

TEST_P(MountedQuota, MakesADirectoryThatCannotHoldSetIdProgramsOrDevices) {
  driver_->apply(directory_, kLimit);
  struct statvfs status {};
  check_syscall("statvfs", ::statvfs(directory_.c_str(), &status));
  EXPECT_NE(status.f_flag & ST_NOSUID, 0u);
  EXPECT_NE(status.f_flag & ST_NODEV, 0u);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));  // no lost+found
}

TEST_P(MountedQuota, ChangesNothingWhenAppliedAgain) {
  driver_->apply(directory_, kLimit);
  write_text(directory_ / "kept", "text");
  driver_->apply(directory_, kLimit);
  driver_->apply(directory_ / ".." / "a", kLimit);
  EXPECT_EQ(mounts().size(), 1u);
  EXPECT_EQ(contents(directory_), (std::map<std::string, std::string>{{"kept", "text"}}));
}

TEST_P(MountedQuota, KeepsWhatTheDirectoryHeld) {
  std::filesystem::create_directories(directory_ / "deep/er");
  write_text(directory_ / "deep/er/file", "content");
  std::filesystem::create_hard_link(directory_ / "deep/er/file", directory_ / "again");
  std::filesystem::create_symlink("deep/er", directory_ / "link");
  check_syscall("chown", ::chown(directory_.c_str(), 1234, 5678));
  check_syscall("chmod", ::chmod(directory_.c_str(), 0750));
  check_syscall("chmod", ::chmod((directory_ / "again").c_str(), 0640));
  const UniqueFd sparse = open_file(directory_ / "sparse", O_RDWR | O_CREAT, 0600);
  check_syscall("truncate", ::ftruncate(sparse.get(), 1 << 30));
  driver_->apply(directory_, kLimit);

  EXPECT_EQ(read_file(directory_ / "again"), "content");
  EXPECT_EQ(std::filesystem::read_symlink(directory_ / "link"), "deep/er");
  EXPECT_EQ(std::filesystem::file_size(directory_ / "sparse"), 1u << 30);
  EXPECT_EQ(std::filesystem::hard_link_count(directory_ / "again"), 2u);
  struct stat status {};
  check_syscall("stat", ::stat(directory_.c_str(), &status));
  EXPECT_EQ(status.st_uid, 1234u);
  EXPECT_EQ(status.st_gid, 5678u);
  EXPECT_EQ(status.st_mode & 07777u, 0750u);
  check_syscall("stat", ::stat((directory_ / "again").c_str(), &status));
  EXPECT_EQ(status.st_mode & 07777u, 0640u);
  EXPECT_TRUE(std::filesystem::is_empty(str("/proc/self/fd/", open_uncovered(directory_).get())));
}

TEST_P(MountedQuota, RefusesALimitThatTheContentExceeds) {
  std::filesystem::create_directories(directory_);
  for (int number = 0; number < 30; ++number) write_text(directory_ / std::to_string(number), "x");
  const auto apply = [&] { driver_->apply(directory_, {.bytes = kMiB, .inodes = 20}); };
  EXPECT_EQ(code_of(apply), ErrorCode::storage_full);
  EXPECT_EQ(contents(directory_).size(), 30u);
  EXPECT_TRUE(mounts().empty());
  EXPECT_TRUE(loops().empty());
}

TEST_P(MountedQuota, GrowsWhileTheDirectoryIsInUse) {
  driver_->apply(directory_, kLimit);
  write_text(directory_ / "kept", "text");
  const UniqueFd in_use = open_file(directory_ / "kept", O_RDWR);
  const Limit more{.bytes = 48 * kMiB, .inodes = kLimit.inodes};
  driver_->apply(directory_, more);
  int error_number = 0;
  const std::uint64_t written = fill_bytes(directory_ / "big", 2 * more.bytes, error_number);
  EXPECT_TRUE(is_within_a_percent(written, more.bytes)) << written;
  EXPECT_EQ(read_file(directory_ / "kept"), "text");
  EXPECT_EQ(driver_->usage(directory_).limit, more);
}

TEST_P(MountedQuota, GrowsBeyondWhatWasForeseen) {
  driver_->apply(directory_, {.bytes = 4 * kMiB, .inodes = 100});
  std::filesystem::create_directory(directory_ / "sub");
  write_text(directory_ / "sub/kept", "text");
  driver_->apply(directory_, kLimit);
  EXPECT_EQ(read_file(directory_ / "sub/kept"), "text");
  EXPECT_EQ(mounts().size(), 1u);
  int error_number = 0;
  const std::uint64_t made = fill_inodes(directory_, 2 * kLimit.inodes, error_number);
  EXPECT_EQ(made + 2, kLimit.inodes);
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    if (entry.is_regular_file()) std::filesystem::remove(entry.path());
  }
  const std::uint64_t written = fill_bytes(directory_ / "big", 2 * kLimit.bytes, error_number);
  EXPECT_TRUE(is_within_a_percent(written, kLimit.bytes)) << written;
}

TEST_P(MountedQuota, ShrinksToWhatIsUsedAndNotBelow) {
  driver_->apply(directory_, kLimit);
  write_text(directory_ / "used", std::string(8 * kMiB, 'x'));
  const auto shrink = [&] { driver_->apply(directory_, {.bytes = 4 * kMiB, .inodes = 1000}); };
  EXPECT_EQ(code_of(shrink), ErrorCode::storage_full);
  EXPECT_EQ(driver_->usage(directory_).limit, kLimit);
  const Limit less{.bytes = 16 * kMiB, .inodes = 1000};
  driver_->apply(directory_, less);
  int error_number = 0;
  const std::uint64_t written = fill_bytes(directory_ / "big", 2 * less.bytes, error_number);
  EXPECT_TRUE(is_within_a_percent(written + 8 * kMiB, less.bytes)) << written;
  EXPECT_EQ(std::filesystem::file_size(directory_ / "used"), 8 * kMiB);
}

TEST_P(MountedQuota, DoesNotReplaceWhatABoxUses) {
  driver_->apply(directory_, {.bytes = 4 * kMiB, .inodes = 100});
  write_text(directory_ / "kept", "text");
  UniqueFd box = clone_mount(directory_);  // as a box has it
  if (!is_tmpfs()) {
    EXPECT_EQ(code_of([&] { driver_->apply(directory_, kLimit); }), ErrorCode::busy);
    EXPECT_EQ(code_of([&] { driver_->release(directory_, Data::keep); }), ErrorCode::busy);
    EXPECT_EQ(code_of([&] { driver_->release(directory_, Data::remove); }), ErrorCode::busy);
  }
  EXPECT_EQ(read_file(directory_ / "kept"), "text");
  EXPECT_EQ(mounts().size(), 1u);
  box.reset();
  driver_->apply(directory_, kLimit);
  EXPECT_EQ(read_file(directory_ / "kept"), "text");
  const UniqueFd process = open_file(directory_, O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(code_of([&] { driver_->release(directory_, Data::keep); }), ErrorCode::busy);
}

TEST_P(MountedQuota, ReleasesAndKeepsTheData) {
  driver_->apply(directory_, kLimit);
  std::filesystem::create_directory(directory_ / "sub");
  write_text(directory_ / "sub/kept", "text");
  check_syscall("chown", ::chown(directory_.c_str(), 1234, 5678));
  driver_->release(directory_, Data::keep);
  EXPECT_EQ(contents(directory_),
            (std::map<std::string, std::string>{{"sub", "/"}, {"sub/kept", "text"}}));
  struct stat status {};
  check_syscall("stat", ::stat(directory_.c_str(), &status));
  EXPECT_EQ(status.st_uid, 1234u);
  EXPECT_TRUE(mounts().empty());
  EXPECT_TRUE(loops().empty());
  EXPECT_TRUE(std::filesystem::is_empty(state()));
  EXPECT_EQ(contents(directory_.parent_path()).size(), 3u);  // nothing beside it
  EXPECT_EQ(code_of([&] { driver_->usage(directory_); }), ErrorCode::not_found);
}

TEST_P(MountedQuota, ReleasesAndRemovesTheData) {
  driver_->apply(directory_, kLimit);
  write_text(directory_ / "gone", "text");
  driver_->release(directory_, Data::remove);
  EXPECT_FALSE(std::filesystem::exists(directory_));
  EXPECT_TRUE(mounts().empty());
  EXPECT_TRUE(loops().empty());
  EXPECT_TRUE(std::filesystem::is_empty(state()));
  EXPECT_EQ(code_of([&] { driver_->release(directory_, Data::remove); }), ErrorCode::not_found);
}

TEST_P(MountedQuota, IsFoundAgainByTheNextDaemon) {
  driver_->apply(directory_, kLimit);
  write_text(directory_ / "kept", "text");
  const Recovery recovery = start();
  EXPECT_EQ(recovery.limited, std::vector{std::filesystem::canonical(directory_)});
  EXPECT_TRUE(recovery.problems.empty());
  EXPECT_EQ(mounts().size(), 1u);
  EXPECT_EQ(read_file(directory_ / "kept"), "text");
  EXPECT_EQ(driver_->usage(directory_).limit, kLimit);
}

TEST_P(MountedQuota, IsMountedAgainAfterARestartOfTheHost) {
  driver_->apply(directory_, kLimit);
  write_text(directory_ / "kept", "text");
  unmount(directory_);
  const Recovery recovery = start();
  EXPECT_EQ(recovery.limited.size(), 1u);
  EXPECT_EQ(mounts().size(), 1u);
  EXPECT_EQ(recovery.problems.size(), is_tmpfs() ? 1u : 0u);  // what was in memory is lost
  EXPECT_EQ(std::filesystem::exists(directory_ / "kept"), !is_tmpfs());
  int error_number = 0;
  const std::uint64_t written = fill_bytes(directory_ / "big", 2 * kLimit.bytes, error_number);
  EXPECT_TRUE(is_within_a_percent(written, kLimit.bytes)) << written;
}

TEST_P(MountedQuota, RefusesADirectoryWithAMountOfSomebodyElse) {
  std::filesystem::create_directories(directory_);
  const UniqueFd other = new_mount("tmpfs", {{"size", "1M"}});
  attach(other.get(), "", directory_, "");
  EXPECT_EQ(code_of([&] { driver_->apply(directory_, kLimit); }), ErrorCode::validation_error);
  EXPECT_EQ(mounts().size(), 1u);
}

TEST_P(MountedQuota, RefusesWhatIsNoDirectoryAndLimitsThatAreTooSmall) {
  write_text(*scene_ / "file", "");
  std::filesystem::create_symlink(scene_->path(), *scene_ / "link");
  for (const char* name : {"file", "link"}) {
    EXPECT_EQ(code_of([&] { driver_->apply(*scene_ / name, kLimit); }),
              ErrorCode::validation_error);
  }
  EXPECT_EQ(code_of([&] { driver_->apply("relative", kLimit); }), ErrorCode::validation_error);
  EXPECT_EQ(code_of([&] { driver_->apply(directory_, {}); }), ErrorCode::validation_error);
}

TEST_P(MountedQuota, DoesNotTouchWhatAnotherDaemonHas) {
  driver_->apply(directory_, kLimit);
  write_text(directory_ / "kept", "text");
  const auto other = mounted_driver(GetParam(), *scene_ / "other");
  other->apply(*scene_ / "tenants/b", kLimit);
  EXPECT_TRUE(mounted_driver(GetParam(), *scene_ / "third")->recover().limited.empty());
  EXPECT_EQ(other->recover().limited.size(), 1u);
  other->release(*scene_ / "tenants/b", Data::remove);
  EXPECT_EQ(read_file(directory_ / "kept"), "text");
  EXPECT_EQ(driver_->usage(directory_).limit, kLimit);
}

INSTANTIATE_TEST_SUITE_P(Drivers, MountedQuota, testing::Values("loop", "tmpfs"),
                         [](const auto& info) { return std::string(info.param); });

class LoopQuota : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = reason_to_skip("loop"); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    scene_ = std::make_unique<Scene>();
  }
  std::unique_ptr<Scene> scene_;
};

TEST_F(LoopQuota, ChecksAFileSystemThatWasNotUnmounted) {
  const std::filesystem::path directory = *scene_ / "a";
  const std::filesystem::path state = *scene_ / "quota";
  mounted_driver("loop", state)->apply(directory, kLimit);
  write_text(directory / "kept", "text");
  const UniqueFd fd = open_file(directory, O_RDONLY | O_DIRECTORY);
  check_syscall("syncfs", ::syncfs(fd.get()));
  // What a host that loses its power leaves: the image as it is in the middle of its use.
  const std::filesystem::path image = state / str(record_id(directory), ".img");
  std::filesystem::copy_file(image, *scene_ / "copy");
  const UniqueFd below = open_uncovered(directory);
  check_syscall("umount", ::umount2(directory.c_str(), MNT_DETACH));
  std::filesystem::rename(*scene_ / "copy", image);
  const Recovery recovery = mounted_driver("loop", state)->recover();
  EXPECT_EQ(recovery.limited.size(), 1u);
  EXPECT_TRUE(recovery.problems.empty()) << recovery.problems.front();
  EXPECT_EQ(read_file(directory / "kept"), "text");
}

TEST_F(LoopQuota, RemovesImagesThatBelongToNothingAndKeepsThoseOfADamagedRecord) {
  const std::filesystem::path state = *scene_ / "quota";
  std::filesystem::create_directories(state / "id.mnt");
  write_text(state / "orphan.img", "x");
  write_text(state / "id.77.new", "x");
  write_text(state / "known.img", "x");
  write_text(state / "known.record", "caisson quo");
  const Recovery recovery = mounted_driver("loop", state)->recover();
  EXPECT_EQ(recovery.problems.size(), 1u);
  EXPECT_EQ(contents(state), (std::map<std::string, std::string>{{"known.img", "x"},
                                                                 {"known.record", "caisson quo"}}));
}

TEST_F(LoopQuota, SaysSoWhenAnImageIsBeyondRepair) {
  const std::filesystem::path directory = *scene_ / "a";
  const std::filesystem::path state = *scene_ / "quota";
  mounted_driver("loop", state)->apply(directory, kLimit);
  unmount(directory);
  const std::filesystem::path image = state / str(record_id(directory), ".img");
  std::filesystem::resize_file(image, 0);
  const Recovery recovery = mounted_driver("loop", state)->recover();
  ASSERT_EQ(recovery.problems.size(), 1u);
  EXPECT_NE(recovery.problems[0].find(image.native()), std::string::npos) << recovery.problems[0];
  EXPECT_TRUE(recovery.limited.empty());
  EXPECT_TRUE(std::filesystem::exists(image));
}

}  // namespace
}  // namespace caisson::quota
