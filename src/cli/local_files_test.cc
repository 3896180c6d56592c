#include "cli/local_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson::cli {
namespace {

namespace fs = std::filesystem;

class LocalFiles : public testing::Test {
 protected:
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  void put(const std::string& name, std::string_view content, bool executable = false) {
    NewFile file(directory_.get(), name, name, executable);
    file.write(content);
    file.commit();
  }

  const TemporaryDirectory temporary_;
  const fs::path root_ = temporary_.path();
  const UniqueFd directory_ = open_file(root_, O_RDONLY | O_DIRECTORY);
};

TEST(PlainName, IsOneComponentThatDoesNotClimb) {
  for (const std::string_view name : {"a", "...", "-", "a b", ".hidden", "ä"}) {
    EXPECT_TRUE(is_plain_name(name)) << name;
  }
  for (const std::string_view name : {"", ".", "..", "/", "a/b", "../x", "/etc/passwd"}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
  }
  EXPECT_FALSE(is_plain_name(std::string_view("a\0b", 3)));
}

TEST_F(LocalFiles, AppearWholeAndReplaceTheFormerOnes) {
  put("a", "one");
  put("a", "two", true);
  EXPECT_EQ(read_file(root_ / "a"), "two");
  EXPECT_EQ(::access((root_ / "a").c_str(), X_OK), 0);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(LocalFiles, LeaveNothingWhenTheyAreDropped) {
  {
    NewFile file(directory_.get(), "a", "a", false);
    file.write("half");
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(LocalFiles, NeverTakeThePlaceOfALink) {
  put("secret", "mine");
  fs::create_symlink("secret", root_ / "link");
  EXPECT_THROW(put("link", "theirs"), Error);
  EXPECT_EQ(read_file(root_ / "secret"), "mine");
}

TEST_F(LocalFiles, DoNotGoThroughALinkThatComesMeanwhile) {
  put("secret", "mine");
  NewFile file(directory_.get(), "a", "a", false);
  file.write("theirs");
  fs::create_symlink("secret", root_ / "a");
  file.commit();
  EXPECT_EQ(read_file(root_ / "secret"), "mine");
  EXPECT_EQ(read_file(root_ / "a"), "theirs");
}

TEST_F(LocalFiles, NameTheirNewDirectories) {
  const UniqueFd made = make_directory(directory_.get(), "new", "new");
  NewFile file(made.get(), "a", "new/a", false);
  file.commit();
  EXPECT_TRUE(fs::exists(root_ / "new" / "a"));
  EXPECT_TRUE(make_directory(directory_.get(), "new", "new").valid());
}

TEST_F(LocalFiles, DoNotEnterADirectoryThroughALink) {
  fs::create_directory(root_ / "outside");
  fs::create_symlink("outside", root_ / "link");
  EXPECT_THROW(make_directory(directory_.get(), "link", "link"), SystemError);
}

}  // namespace
}  // namespace caisson::cli
