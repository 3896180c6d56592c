#include "backend/native/mount_point.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson::backend::native {
namespace {

namespace fs = std::filesystem;

class MountPointTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(host_ / "work");
    fs::create_directory(host_ / "outside");
    work_ = open_mount_source(host_ / "work", model::MountMode::rw, {});
  }

  TemporaryDirectory host_;
  MountSource work_;
};

TEST_F(MountPointTest, MakesEveryMissingDirectory) {
  make_mount_point(work_, "a/b/c", true);
  EXPECT_TRUE(fs::is_directory(host_ / "work/a/b/c"));
}

TEST_F(MountPointTest, MakesAnEmptyFileForAFile) {
  make_mount_point(work_, "a/file", false);
  EXPECT_TRUE(fs::is_regular_file(host_ / "work/a/file"));
  EXPECT_TRUE(fs::is_empty(host_ / "work/a/file"));
}

TEST_F(MountPointTest, LeavesAloneWhatIsThere) {
  fs::create_directory(host_ / "work/a");
  replace_file(host_ / "work/a/file", "content");
  ASSERT_EQ(::chmod((host_ / "work/a").c_str(), 0711), 0);
  make_mount_point(work_, "a/file", false);
  make_mount_point(work_, "a", true);
  EXPECT_EQ(read_file(host_ / "work/a/file"), "content");
  struct stat info {};
  ASSERT_EQ(::stat((host_ / "work/a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0711u);
}

TEST_F(MountPointTest, GivesWhatItMakesToTheOwnerOfTheMount) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown((host_ / "work").c_str(), 12345, 23456), 0);
  work_ = open_mount_source(host_ / "work", model::MountMode::rw, {});
  make_mount_point(work_, "a/b", true);
  make_mount_point(work_, "a/file", false);
  for (const char* name : {"work/a", "work/a/b", "work/a/file"}) {
    struct stat info {};
    ASSERT_EQ(::stat((host_ / name).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 12345u) << name;
    EXPECT_EQ(info.st_gid, 23456u) << name;
  }
}

TEST_F(MountPointTest, FollowsNoSymbolicLinkOnTheWay) {
  fs::create_symlink(host_ / "outside", host_ / "work/link");
  fs::create_symlink("..", host_ / "work/up");
  for (const char* relative : {"link/made", "link/a/b", "up/outside/made"}) {
    EXPECT_THROW(make_mount_point(work_, relative, true), SystemError) << relative;
    EXPECT_THROW(make_mount_point(work_, relative, false), SystemError) << relative;
  }
  EXPECT_TRUE(fs::is_empty(host_ / "outside"));
}

TEST_F(MountPointTest, MakesNothingThroughALinkAtTheEnd) {
  fs::create_symlink(host_ / "outside/made", host_ / "work/link");
  make_mount_point(work_, "link", true);
  make_mount_point(work_, "link", false);
  EXPECT_TRUE(fs::is_symlink(host_ / "work/link"));
  EXPECT_TRUE(fs::is_empty(host_ / "outside"));
}

TEST_F(MountPointTest, DoesNotTouchTheOwnerOfALinksTarget) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown((host_ / "work").c_str(), 12345, 12345), 0);
  work_ = open_mount_source(host_ / "work", model::MountMode::rw, {});
  fs::create_symlink(host_ / "outside", host_ / "work/link");
  make_mount_point(work_, "link", true);
  struct stat info {};
  ASSERT_EQ(::stat((host_ / "outside").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, ::geteuid());
}

TEST_F(MountPointTest, NamesThePathThatIsInTheWay) {
  replace_file(host_ / "work/file", "");
  try {
    make_mount_point(work_, "file/below", true);
    FAIL() << "made a directory below a file";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.error_number(), ENOTDIR);
    EXPECT_NE(std::string(error.what()).find(host_ / "work/file/below"), std::string::npos)
        << error.what();
  }
}

TEST_F(MountPointTest, WorksInTheDirectoryThatWasOpened) {
  fs::rename(host_ / "work", host_ / "away");
  fs::create_symlink(host_ / "outside", host_ / "work");
  make_mount_point(work_, "a", true);
  EXPECT_TRUE(fs::is_directory(host_ / "away/a"));
  EXPECT_TRUE(fs::is_empty(host_ / "outside"));
}

}  // namespace
}  // namespace caisson::backend::native
