#include "base/beneath.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson {
namespace {

namespace fs = std::filesystem;

class Beneath : public testing::Test {
 protected:
  Beneath() {
    fs::create_directories(directory_.path() / "root/a");
    std::ofstream(directory_.path() / "root/a/file") << "x";
    std::ofstream(directory_.path() / "secret") << "s";
    link("a/file", "inside");
    link("../secret", "out");
    link(directory_ / "root/a/file", "absolute");
    link("/proc/self/root", "magic");
    link("a", "folder");
    root_ = open_file(directory_.path() / "root", O_RDONLY | O_DIRECTORY);
  }

  void link(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, directory_.path() / "root" / name);
  }

  // 0 when it opens.
  int error_of(const std::string& path, Links links) const {
    const UniqueFd fd = open_beneath(root_.get(), path, O_RDONLY, links);
    return fd ? 0 : errno;
  }

  TemporaryDirectory directory_;
  UniqueFd root_;
};

TEST_F(Beneath, FollowsLinksThatStayInsideWhereThatIsAskedFor) {
  EXPECT_EQ(error_of("a/file", Links::inside), 0);
  EXPECT_EQ(error_of("inside", Links::inside), 0);
  EXPECT_EQ(error_of("folder/file", Links::inside), 0);
  EXPECT_EQ(error_of("folder/../a/file", Links::inside), 0);
  EXPECT_EQ(error_of("", Links::inside), 0);
  for (const char* out :
       {"out", "absolute", "magic/etc/passwd", "../secret", "/etc/passwd", "folder/../../secret"}) {
    EXPECT_EQ(error_of(out, Links::inside), EXDEV) << out;
  }
}

TEST_F(Beneath, RefusesEveryLinkOtherwise) {
  EXPECT_EQ(error_of("a/file", Links::refuse), 0);
  for (const char* link : {"inside", "folder/file", "out", "absolute", "magic"}) {
    EXPECT_EQ(error_of(link, Links::refuse), ELOOP) << link;
  }
  EXPECT_EQ(error_of("../secret", Links::refuse), EXDEV);
}

TEST_F(Beneath, DoesNotWaitForAFifo) {
  ASSERT_EQ(::mkfifoat(root_.get(), "fifo", 0600), 0);
  EXPECT_EQ(error_of("fifo", Links::refuse), 0);
  EXPECT_FALSE(is_file_beneath(root_.get(), "fifo"));
  EXPECT_TRUE(is_file_beneath(root_.get(), "inside"));
  EXPECT_TRUE(is_directory_beneath(root_.get(), "folder"));
  EXPECT_FALSE(is_directory_beneath(root_.get(), "out"));
}

TEST_F(Beneath, DoesNotMakeADirectoryThroughALink) {
  EXPECT_TRUE(make_directory_at(root_.get(), "new", "it").valid());
  EXPECT_TRUE(make_directory_at(root_.get(), "new", "it").valid());
  EXPECT_THROW(make_directory_at(root_.get(), "folder", "it"), SystemError);
}

TEST_F(Beneath, OpensAnAbsolutePathWithoutLinks) {
  EXPECT_TRUE(open_absolute(directory_ / "root/a/file", O_RDONLY).valid());
  EXPECT_TRUE(open_absolute("/", O_PATH).valid());
  EXPECT_FALSE(open_absolute(directory_ / "root/folder/file", O_RDONLY).valid());
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(open_absolute(directory_ / "root/inside", O_RDONLY).valid());
  EXPECT_EQ(errno, ELOOP);
}

TEST_F(Beneath, MakesTheDirectoriesThatAreMissing) {
  EXPECT_TRUE(make_directories(directory_ / "root/x/y/z").valid());
  EXPECT_TRUE(make_directories(directory_ / "root/x/y/z").valid());
  EXPECT_TRUE(fs::is_directory(directory_.path() / "root/x/y/z"));
  EXPECT_THROW(make_directories(directory_ / "root/folder/new"), SystemError);
  EXPECT_THROW(make_directories(directory_ / "root/a/file/new"), SystemError);
  EXPECT_FALSE(fs::exists(directory_.path() / "root/a/new"));
}

TEST(NormalRelative, StaysInside) {
  EXPECT_EQ(normal_relative("a//./b/"), "a/b");
  EXPECT_EQ(normal_relative("a/../b"), "b");
  EXPECT_EQ(normal_relative("..x/..."), "..x/...");
  EXPECT_EQ(normal_relative("."), "");
  EXPECT_EQ(normal_relative(""), "");
  for (const char* out : {"..", "../x", "a/../../x", "/", "/a"}) {
    EXPECT_EQ(normal_relative(out), std::nullopt) << out;
  }
  EXPECT_EQ(normal_relative(std::string_view("a\0b", 3)), std::nullopt);
}

TEST(JoinPath, LeavesNoSlashTooMany) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(join_path("a", ""), "a");
}

}  // namespace
}  // namespace caisson
