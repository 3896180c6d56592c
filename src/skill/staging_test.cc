#include "skill/staging.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "skill/scene_for_test.h"

namespace caisson::skill {
namespace {

using Names = std::set<std::string>;

class StagingTest : public testing::Test {
 protected:
  StagingTest() {
    std::filesystem::create_directory(scene_.root());
    root_ = open_file(scene_.root(), O_RDONLY | O_DIRECTORY);
  }

  static void fill(const UniqueFd& package, std::string_view content) {
    const UniqueFd file = open_file_at(package.get(), "SKILL.md", O_WRONLY | O_CREAT, 0600);
    write_all(file.get(), content, "SKILL.md");
  }

  Scene scene_;
  UniqueFd root_;
};

TEST_F(StagingTest, LeavesNothingWhenItIsDropped) {
  {
    Staging staging(root_.get(), scene_.root());
    fill(staging.make_package(), "x");
    EXPECT_EQ(scene_.tree().size(), 3u);
  }
  EXPECT_EQ(scene_.tree(), Names{});
}

TEST_F(StagingTest, PublishesAllPackagesOrNone) {
  scene_.put("skills/taken/file", "old");
  {
    Staging staging(root_.get(), scene_.root());
    fill(staging.make_package(), "1");
    fill(staging.make_package(), "2");
    EXPECT_EQ(refusal_of([&] {
                staging.publish({"first", "taken"});
              }),
              "Skill directory already exists: " + scene_.root() + "/taken");
  }
  EXPECT_EQ(scene_.tree(), (Names{"taken", "taken/file"}));
  {
    Staging staging(root_.get(), scene_.root());
    fill(staging.make_package(), "1");
    fill(staging.make_package(), "2");
    staging.publish({"first", "second"});
  }
  EXPECT_EQ(scene_.tree(),
            (Names{"first", "first/SKILL.md", "second", "second/SKILL.md", "taken", "taken/file"}));
  EXPECT_EQ(scene_.content("skills/second/SKILL.md"), "2");
}

TEST_F(StagingTest, IsNotSweptWhileItsMakerIsAtWork) {
  Staging staging(root_.get(), scene_.root());
  fill(staging.make_package(), "x");
  Staging::sweep(root_.get());
  staging.publish({"kept"});
  EXPECT_TRUE(scene_.exists("skills/kept/SKILL.md"));
}

TEST_F(StagingTest, UndoesWhatAKilledMakerHadPublishedInPart) {
  scene_.put("skills/.caisson-staging-1/plan", std::string("first\0second\0", 13));
  scene_.put("skills/first/SKILL.md", "half of it");
  scene_.put("skills/.caisson-staging-1/package-1/SKILL.md", "the other half");
  scene_.put("skills/second/SKILL.md", "somebody else's");
  scene_.put("skills/.caisson-staging-2/file", "half writ");
  Staging::sweep(root_.get());
  EXPECT_EQ(scene_.tree(), (Names{"second", "second/SKILL.md"}));
}

TEST_F(StagingTest, ReplacesAFileAndKeepsItsMode) {
  scene_.put("skills/p/run.sh", "old");
  std::filesystem::permissions(scene_.root() + "/p/run.sh", std::filesystem::perms(0750));
  const UniqueFd package = open_file_at(root_.get(), "p", O_RDONLY | O_DIRECTORY);
  Staging staging(root_.get(), scene_.root());
  staging.replace_file(package.get(), "run.sh", "new");
  staging.replace_file(package.get(), "other", "text");
  EXPECT_EQ(scene_.content("skills/p/run.sh"), "new");
  struct stat info {};
  ASSERT_EQ(::fstatat(package.get(), "run.sh", &info, 0), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0750u);
  ASSERT_EQ(::fstatat(package.get(), "other", &info, 0), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0644u);
}

TEST_F(StagingTest, GivesAFileToTheOwnerOfItsDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  scene_.put("skills/p/file", "old");
  ASSERT_EQ(::chown((scene_.root() + "/p").c_str(), 12345, 12346), 0);
  const UniqueFd package = open_file_at(root_.get(), "p", O_RDONLY | O_DIRECTORY);
  Staging staging(root_.get(), scene_.root());
  staging.replace_file(package.get(), "file", "new");
  struct stat info {};
  ASSERT_EQ(::fstatat(package.get(), "file", &info, 0), 0);
  EXPECT_EQ(info.st_uid, 12345u);
  EXPECT_EQ(info.st_gid, 12346u);
}

}  // namespace
}  // namespace caisson::skill
