#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>

#include "base/error.h"
#include "base/temporary_directory.h"

namespace caisson {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  const TemporaryDirectory temporary_;
  const fs::path directory_ = temporary_.path();
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST_F(File, ReadsBackWhatWasWritten) {
  const std::string content(100'000, 'x');
  replace_file(directory_ / "f", content);
  EXPECT_EQ(read_file(directory_ / "f"), content);
}

TEST_F(File, RefusesToReadMoreThanTheLimit) {
  replace_file(directory_ / "f", "12345");
  EXPECT_EQ(read_file(directory_ / "f", 5), "12345");
  try {
    read_file(directory_ / "f", 4);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), (directory_ / "f").native() + ": larger than 4 bytes");
  }
}

TEST_F(File, NamesThePathThatCannotBeOpened) {
  try {
    open_file(directory_ / "absent", O_RDONLY);
    FAIL() << "it was opened";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("absent"), std::string::npos);
  }
}

TEST_F(File, OpensEverythingCloseOnExec) {
  const UniqueFd fd = open_file(directory_, O_RDONLY | O_DIRECTORY);
  const UniqueFd below = open_file_at(fd.get(), "new", O_WRONLY | O_CREAT, 0600);
  auto [read_end, write_end] = make_pipe();
  for (const int each : {fd.get(), below.get(), read_end.get(), write_end.get()}) {
    EXPECT_EQ(::fcntl(each, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  EXPECT_TRUE(fs::exists(directory_ / "new"));
}

TEST_F(File, FindsNothingWhereThereIsNoFile) {
  replace_file(directory_ / "f", "here");
  EXPECT_EQ(find_file_content(directory_ / "f"), "here");
  EXPECT_EQ(find_file_content(directory_ / "absent"), std::nullopt);
  EXPECT_EQ(find_file_content(directory_ / "f" / "below a file"), std::nullopt);
  EXPECT_THROW(find_file_content(directory_), SystemError) << "a directory is not an absent file";
}

TEST_F(File, ReplacesContentAndModeAndLeavesNoTemporaryFile) {
  replace_file(directory_ / "f", "old");
  replace_file(directory_ / "f", "new", 0600);
  EXPECT_EQ(read_file(directory_ / "f"), "new");
  struct stat info {};
  ASSERT_EQ(::stat((directory_ / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0600u);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(File, LeavesNothingBehindWhenReplacingFails) {
  fs::create_directory(directory_ / "d");
  EXPECT_THROW(replace_file(directory_ / "d", "x"), SystemError);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(File, WritesToControlFilesOnlyWhenTheyExist) {
  EXPECT_THROW(write_control_file(directory_ / "absent", "1"), SystemError);
  EXPECT_FALSE(fs::exists(directory_ / "absent"));
  replace_file(directory_ / "f", "");
  write_control_file(directory_ / "f", "1\n");
  EXPECT_EQ(read_file(directory_ / "f"), "1\n");
}

TEST_F(File, WritesAllOfWhatDoesNotFitIntoAPipeAtOnce) {
  auto [read_end, write_end] = make_pipe();
  const std::string content(1u << 20, 'y');
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    write_all(write_end.get(), content, "pipe");
    ::_exit(0);
  }
  write_end.reset();
  EXPECT_EQ(read_all(read_end.get(), "pipe").size(), content.size());
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

TEST(SealedMemoryFile, HoldsItsContentAndCannotBeChanged) {
  const UniqueFd fd = sealed_memory_file("test", bytes_of("content"));
  EXPECT_EQ(read_all(fd.get(), "memory"), "content");
  EXPECT_EQ(::write(fd.get(), "x", 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd.get(), 0), -1);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), -1);
  EXPECT_EQ(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  void* mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(::mprotect(mapped, 4096, PROT_READ | PROT_WRITE), -1);
  ::munmap(mapped, 4096);
}

TEST(SealedMemoryFile, IsSealedWhileAPageOfItIsInUse) {
  const UniqueFd fd = memory_file("test");
  write_all(fd.get(), "content", "memory");
  auto [read_end, write_end] = make_pipe();
  loff_t offset = 0;
  ASSERT_EQ(::splice(fd.get(), &offset, write_end.get(), nullptr, 7, 0), 7);
  seal_memory_file(fd.get(), "test");
  EXPECT_EQ(::pwrite(fd.get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(SetNonblocking, MakesAnEmptyPipeAnswerAtOnce) {
  auto [read_end, write_end] = make_pipe();
  set_nonblocking(read_end.get());
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(::fcntl(write_end.get(), F_GETFL) & O_NONBLOCK, 0);
}

}  // namespace
}  // namespace caisson
