#include "base/directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson {
namespace {

TEST(ForEachEntry, VisitsAllAndLeavesTheDescriptorAlone) {
  const TemporaryDirectory directory;
  replace_file(directory / "file", "x");
  std::filesystem::create_directory(directory / ".hidden");
  const UniqueFd fd = open_file(directory.path(), O_PATH | O_DIRECTORY);
  for (int round = 0; round < 2; ++round) {
    std::set<std::string> names;
    for_each_entry(fd.get(), "it", [&](const dirent& entry) { names.insert(entry.d_name); });
    EXPECT_EQ(names, (std::set<std::string>{".hidden", "file"}));
  }
}

TEST(RemoveTree, LeavesWhatASymlinkPointsTo) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "kept");
  replace_file(directory / "kept/file", "x");
  std::filesystem::create_directories(directory / "gone/below");
  std::filesystem::create_directory_symlink("../../kept", directory / "gone/below/link");
  const UniqueFd fd = open_file(directory.path(), O_RDONLY | O_DIRECTORY);
  remove_tree(fd.get(), "gone");
  remove_tree(fd.get(), "gone");
  EXPECT_FALSE(std::filesystem::exists(directory / "gone"));
  EXPECT_TRUE(std::filesystem::exists(directory / "kept/file"));
}

TEST(RemoveTree, SaysThatAFileMayNotBeRemoved) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a file of somebody else";
  const TemporaryDirectory sticky(01777);
  replace_file(sticky / "file", "x");
  const UniqueFd fd = open_file(sticky.path(), O_RDONLY | O_DIRECTORY);
  int refused = 0;
  ASSERT_EQ(::seteuid(1), 0);
  try {
    remove_tree(fd.get(), "file");
  } catch (const SystemError& error) {
    refused = error.error_number();
  }
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(refused, EPERM);
}

TEST(RemoveTree, GetsToTheEndOfATreeThatIsDeeperThanDescriptorsAndPathsReach) {
  const TemporaryDirectory directory;
  const UniqueFd top = open_file(directory.path(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::mkdirat(top.get(), "deep", 0700), 0);
  UniqueFd current = open_file_at(top.get(), "deep", O_RDONLY | O_DIRECTORY);
  const std::string name(100, 'd');
  for (int depth = 0; depth < 3000; ++depth) {
    ASSERT_EQ(::mkdirat(current.get(), name.c_str(), 0700), 0);
    ASSERT_EQ(::mkdirat(current.get(), ".deep-1", 0700), 0);
    current = open_file_at(current.get(), name, O_RDONLY | O_DIRECTORY);
  }
  remove_tree(top.get(), "deep");
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(MeasureTree, CountsEveryFileOnceAndFollowsNoLink) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "tree/below");
  replace_file(directory / "outside", std::string(100'000, 'x'));
  replace_file(directory / "tree/one", std::string(5'000, 'x'));
  replace_file(directory / "tree/below/two", std::string(70, 'x'));
  std::filesystem::create_hard_link(directory / "tree/one", directory / "tree/below/again");
  std::filesystem::create_symlink("../outside", directory / "tree/link");
  std::filesystem::create_directory_symlink(directory.path(), directory / "tree/below/up");
  const UniqueFd fd = open_file(directory / "tree", O_RDONLY | O_DIRECTORY);
  const TreeUsage usage = measure_tree(fd.get());
  const std::size_t links = std::string("../outside").size() + directory.path().native().size();
  EXPECT_EQ(usage.size, 5'000 + 70 + links);
  EXPECT_EQ(usage.files, 4u);
  EXPECT_EQ(usage.directories, 1u);
  EXPECT_GE(usage.allocated, 5'070u);
  EXPECT_LT(usage.allocated, 100'000u);
  EXPECT_EQ(usage.errors, 0u);
}

TEST(MeasureTree, SaysThatATreeIsTooDeep) {
  const TemporaryDirectory directory;
  std::filesystem::path deep = directory.path();
  for (int depth = 0; depth < 250; ++depth) deep /= "d";
  std::filesystem::create_directories(deep);
  replace_file(directory / "d/file", "x");
  const UniqueFd fd = open_file(directory.path(), O_RDONLY | O_DIRECTORY);
  const TreeUsage usage = measure_tree(fd.get());
  EXPECT_EQ(usage.files, 1u);
  EXPECT_EQ(usage.errors, 1u);
}

}  // namespace
}  // namespace caisson
