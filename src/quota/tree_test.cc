#include "quota/tree.h"

#include <gtest/gtest.h>
#include <sys/xattr.h>

#include "base/directory.h"
#include "quota/scene_for_test.h"

namespace caisson::quota {
namespace {

class QuotaTree : public testing::Test {
 protected:
  QuotaTree() {
    for (const char* name : {"from", "to"}) std::filesystem::create_directory(directory_ / name);
    from_ = open_file(directory_ / "from", O_RDONLY | O_DIRECTORY);
    to_ = open_file(directory_ / "to", O_RDONLY | O_DIRECTORY);
  }
  TemporaryDirectory directory_;
  UniqueFd from_;
  UniqueFd to_;
};

TEST_F(QuotaTree, CopiesEveryKindOfEntryWithItsAttributes) {
  write_text(directory_ / "from/file", "content");
  check_syscall("chmod", ::chmod((directory_ / "from/file").c_str(), 0604));
  std::filesystem::create_directory(directory_ / "from/closed");
  write_text(directory_ / "from/closed/inner", "inner");
  std::filesystem::create_hard_link(directory_ / "from/file", directory_ / "from/closed/other");
  check_syscall("chmod", ::chmod((directory_ / "from/closed").c_str(), 0711));
  std::filesystem::create_symlink("/nowhere", directory_ / "from/link");
  check_syscall("mkfifo", ::mkfifo((directory_ / "from/fifo").c_str(), 0600));
  const timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000, .tv_nsec = 3}};
  check_syscall("utimensat", ::utimensat(AT_FDCWD, (directory_ / "from/file").c_str(), times, 0));
  copy_tree(from_.get(), to_.get());

  EXPECT_EQ(read_file(directory_ / "to/file"), "content");
  EXPECT_EQ(read_file(directory_ / "to/closed/inner"), "inner");
  EXPECT_EQ(std::filesystem::read_symlink(directory_ / "to/link"), "/nowhere");
  EXPECT_TRUE(std::filesystem::is_fifo(directory_ / "to/fifo"));
  struct stat file {};
  struct stat other {};
  check_syscall("stat", ::stat((directory_ / "to/file").c_str(), &file));
  check_syscall("stat", ::stat((directory_ / "to/closed/other").c_str(), &other));
  EXPECT_EQ(file.st_ino, other.st_ino);
  EXPECT_EQ(file.st_mode & 07777u, 0604u);
  EXPECT_EQ(file.st_mtim.tv_sec, 2000);
  EXPECT_EQ(file.st_mtim.tv_nsec, 3);
  check_syscall("stat", ::stat((directory_ / "to/closed").c_str(), &other));
  EXPECT_EQ(other.st_mode & 07777u, 0711u);
}

TEST_F(QuotaTree, KeepsHolesAndExtendedAttributes) {
  const UniqueFd file = open_file(directory_ / "from/sparse", O_RDWR | O_CREAT, 0600);
  check_syscall("pwrite", ::pwrite(file.get(), "middle", 6, 64 << 20));
  check_syscall("truncate", ::ftruncate(file.get(), 128 << 20));
  const bool has_attributes = ::fsetxattr(file.get(), "user.note", "value", 5, 0) == 0;
  copy_tree(from_.get(), to_.get());
  const UniqueFd copy = open_file(directory_ / "to/sparse", O_RDONLY);
  struct stat status {};
  check_syscall("stat", ::fstat(copy.get(), &status));
  EXPECT_EQ(status.st_size, 128 << 20);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
  char text[6];
  EXPECT_EQ(::pread(copy.get(), text, sizeof text, 64 << 20), 6);
  EXPECT_EQ(std::string_view(text, 6), "middle");
  if (has_attributes) {
    char value[8];
    EXPECT_EQ(::fgetxattr(copy.get(), "user.note", value, sizeof value), 5);
  }
}

TEST_F(QuotaTree, CountsAFileWithTwoNamesOnce) {
  write_text(directory_ / "from/a", std::string(100'000, 'x'));
  std::filesystem::create_hard_link(directory_ / "from/a", directory_ / "from/b");
  std::filesystem::create_directory(directory_ / "from/c");
  sync_tree(from_.get(), "from");
  const Limit sum = needed_by(from_.get());
  EXPECT_EQ(sum.inodes, 2u);
  EXPECT_GE(sum.bytes, 100'000u);
  EXPECT_LT(sum.bytes, 120'000u);
}

TEST_F(QuotaTree, RemovesWhatIsInADirectoryAndNotWhatLinksLeadTo) {
  write_text(directory_ / "kept", "text");
  std::filesystem::create_symlink("../kept", directory_ / "from/link");
  std::filesystem::create_symlink("../to", directory_ / "from/directory");
  std::filesystem::create_directories(directory_ / "from/a/b/c");
  empty_tree(from_.get());
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "from"));
  EXPECT_EQ(read_file(directory_ / "kept"), "text");
  EXPECT_TRUE(std::filesystem::exists(directory_ / "to"));
}

TEST_F(QuotaTree, RefusesWhatIsNestedWithoutEnd) {
  UniqueFd at = open_file(directory_ / "from", O_RDONLY | O_DIRECTORY);
  for (unsigned depth = 0; depth < kDeepestTree + 2; ++depth) {
    check_syscall("mkdir", ::mkdirat(at.get(), "d", 0700));
    at = open_file_at(at.get(), "d", O_RDONLY | O_DIRECTORY);
  }
  EXPECT_EQ(code_of([&] { copy_tree(from_.get(), to_.get()); }), ErrorCode::validation_error);
  EXPECT_EQ(code_of([&] { needed_by(from_.get()); }), ErrorCode::validation_error);
}

}  // namespace
}  // namespace caisson::quota
