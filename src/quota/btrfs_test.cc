#include "quota/btrfs.h"

#include <gtest/gtest.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>

#include "quota/scene_for_test.h"

namespace caisson::quota {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;
constexpr Limit kLimit{.bytes = 128 * kMiB, .inodes = 1000};

class BtrfsQuota : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = reason_to_skip("btrfs"); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    scene_ = std::make_unique<Scene>();
    std::filesystem::create_directory(*scene_ / "m");
    {
      const UniqueFd image = open_file(*scene_ / "image", O_RDWR | O_CREAT, 0600);
      check_syscall("truncate", ::ftruncate(image.get(), 1 << 30));
    }
    std::string said;
    ASSERT_EQ(run_tool({*find_tool("mkfs.btrfs"), "-q", *scene_ / "image"}, said), 0) << said;
    const LoopDevice device = make_loop_device(*scene_ / "image");
    if (::mount(device.path.c_str(), (*scene_ / "m").c_str(), "btrfs", 0, nullptr) < 0) {
      GTEST_SKIP() << "btrfs cannot be mounted: " << error_text(errno);
    }
    directory_ = *scene_ / "m/tenants/a";
    driver_ = std::make_unique<Btrfs>(state());
  }

  void enable_quotas() {
    const UniqueFd root = open_file(*scene_ / "m", O_RDONLY | O_DIRECTORY);
    btrfs_ioctl_quota_ctl_args arguments{};
    arguments.cmd = BTRFS_QUOTA_CTL_ENABLE;
    check_syscall("enable quotas", ::ioctl(root.get(), BTRFS_IOC_QUOTA_CTL, &arguments));
    check_syscall("rescan", ::ioctl(root.get(), BTRFS_IOC_QUOTA_RESCAN_WAIT));
  }

  std::filesystem::path state() const { return *scene_ / "quota"; }

  std::unique_ptr<Scene> scene_;
  std::filesystem::path directory_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(BtrfsQuota, IsChosenWhereQuotasAreEnabled) {
  const ChooseOptions options{.state = state()};
  const Choice without = choose(directory_, options);
  EXPECT_NE(without.candidates[1].why.find("not enabled"), std::string::npos)
      << without.candidates[1].why;
  EXPECT_NE(without.candidates[1].fix.find("btrfs quota enable"), std::string::npos);
  enable_quotas();
  const Choice with = choose(directory_, options);
  ASSERT_NE(with.driver, nullptr);
  EXPECT_EQ(with.driver->name(), "btrfs");
  EXPECT_EQ(with.enforces(), (Enforced{.bytes = true, .inodes = false}));
  EXPECT_NE(choose(directory_, {.state = state(), .inodes_required = true}).driver->name(),
            "btrfs");
}

TEST_F(BtrfsQuota, StopsWritersAtTheLimit) {
  enable_quotas();
  driver_->apply(directory_, kLimit);
  driver_->apply(directory_, kLimit);
  int error_number = 0;
  const std::uint64_t written = fill_bytes(directory_ / "big", 2 * kLimit.bytes, error_number);
  EXPECT_EQ(error_number, EDQUOT);
  EXPECT_TRUE(is_within_a_percent(written, kLimit.bytes)) << written;
  EXPECT_TRUE(is_within_a_percent(driver_->usage(directory_).used.bytes, kLimit.bytes));
  write_text(*scene_ / "m/elsewhere", std::string(kMiB, 'x'));  // the file system goes on

  const auto shrink = [&] { driver_->apply(directory_, {.bytes = kMiB, .inodes = 1000}); };
  EXPECT_EQ(code_of(shrink), ErrorCode::storage_full);
  const Limit more{.bytes = 192 * kMiB, .inodes = 1000};
  driver_->apply(directory_, more);
  const std::uint64_t rest = fill_bytes(directory_ / "more", 2 * more.bytes, error_number);
  EXPECT_EQ(error_number, EDQUOT);
  EXPECT_TRUE(is_within_a_percent(written + rest, more.bytes)) << rest;
}

TEST_F(BtrfsQuota, KeepsWhatTheDirectoryHeldAndGivesItBack) {
  enable_quotas();
  std::filesystem::create_directories(directory_ / "sub");
  write_text(directory_ / "sub/file", "content");
  check_syscall("chown", ::chown(directory_.c_str(), 1234, 5678));
  const auto before = contents(directory_.parent_path());
  driver_->apply(directory_, kLimit);
  EXPECT_EQ(contents(directory_.parent_path()), before);
  struct stat status {};
  check_syscall("stat", ::stat(directory_.c_str(), &status));
  EXPECT_EQ(status.st_uid, 1234u);
  driver_->release(directory_, Data::keep);
  EXPECT_EQ(contents(directory_.parent_path()), before);
  EXPECT_TRUE(std::filesystem::is_empty(state()));
  int error_number = 0;
  fill_bytes(directory_ / "big", kLimit.bytes + 8 * kMiB, error_number);
  EXPECT_EQ(error_number, 0);
}

TEST_F(BtrfsQuota, ReleasesAndRemovesTheData) {
  enable_quotas();
  driver_->apply(directory_, kLimit);
  write_text(directory_ / "file", "content");
  driver_->release(directory_, Data::remove);
  EXPECT_FALSE(std::filesystem::exists(directory_));
  EXPECT_TRUE(std::filesystem::is_empty(state()));
}

// Of each step of bringing a directory in, what it leaves when nothing comes after it.
TEST_F(BtrfsQuota, FinishesWhatADaemonLeftHalfDone) {
  enable_quotas();
  Ledger ledger(state(), "btrfs");
  Record record{.driver = "btrfs", .limit = kLimit};
  record.directory = directory_;
  const std::filesystem::path place =
      directory_.parent_path() / str(".caisson-quota-", record_id(directory_));
  for (const bool exchanged : {false, true}) {
    SCOPED_TRACE(exchanged);
    std::filesystem::create_directories(directory_);
    write_text(directory_ / "file", "content");
    if (exchanged) {
      driver_->apply(directory_, kLimit);
      std::filesystem::create_directory(place);
      write_text(place / "file", "old");
    } else {
      const UniqueFd parent = open_file(directory_.parent_path(), O_RDONLY | O_DIRECTORY);
      btrfs_ioctl_vol_args arguments{};
      place.filename().native().copy(arguments.name, sizeof arguments.name - 1);
      check_syscall("subvolume", ::ioctl(parent.get(), BTRFS_IOC_SUBVOL_CREATE, &arguments));
      write_text(place / "file", "con");
    }
    ledger.put(record);
    const Recovery recovery = Btrfs(state()).recover();
    EXPECT_EQ(recovery.limited, std::vector{directory_});
    EXPECT_TRUE(recovery.problems.empty());
    EXPECT_EQ(contents(directory_.parent_path()),
              (std::map<std::string, std::string>{{"a", "/"}, {"a/file", "content"}}));
    int error_number = 0;
    fill_bytes(directory_ / "big", 2 * kLimit.bytes, error_number);
    EXPECT_EQ(error_number, EDQUOT);
    driver_->release(directory_, Data::remove);
  }
}

}  // namespace
}  // namespace caisson::quota
