#include "base/directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

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

}  // namespace
}  // namespace caisson
