#include "backend/fake/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson::backend::fake {
namespace {

int errno_of(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const SystemError& error) {
    return error.error_number();
  }
  return 0;
}

class FilesInABox : public testing::Test {
 protected:
  FilesInABox() { spec_.host_path = host_.native(); }

  const TemporaryDirectory temporary_;
  const std::filesystem::path host_ = temporary_.path();
  model::BoxSettings spec_;
};

TEST_F(FilesInABox, KeepTheRootReadOnlyUnlessAsked) {
  Files files(spec_);
  EXPECT_EQ(errno_of([&] { files.write("/etc/x", "y"); }), EROFS);
  EXPECT_EQ(errno_of([&] { files.make_directories("/opt/x"); }), EROFS);
  files.write("/tmp/x", "y");
  EXPECT_EQ(files.read("/tmp/../tmp/x"), "y");
  spec_.read_only_rootfs = false;
  Files writable(spec_);
  writable.make_directories("/opt/x");
  writable.write("/opt/x/f", "z");
  EXPECT_EQ(writable.read("/opt/x/f"), "z");
}

TEST_F(FilesInABox, GiveTheErrorsOfARealBox) {
  Files files(spec_);
  EXPECT_EQ(errno_of([&] { files.read("/tmp/none"); }), ENOENT);
  EXPECT_EQ(errno_of([&] { files.read("/tmp"); }), EISDIR);
  EXPECT_EQ(errno_of([&] { files.write("/tmp", ""); }), EISDIR);
  EXPECT_EQ(errno_of([&] { files.write("/tmp/none/x", ""); }), ENOENT);
  files.write("/tmp/file", "");
  EXPECT_EQ(errno_of([&] { files.write("/tmp/file/x", ""); }), ENOTDIR);
  EXPECT_EQ(errno_of([&] { files.make_directories("/tmp/file/x"); }), ENOTDIR);
  EXPECT_EQ(errno_of([&] { files.read("/workspace/none"); }), ENOENT);
}

TEST_F(FilesInABox, AreBoundedInMemory) {
  spec_.memory_mb = 32;
  Files files(spec_);
  const std::string mebibyte(1u << 20, 'x');
  for (int i = 0; i < 32; ++i) files.append("/tmp/x", mebibyte);
  EXPECT_EQ(errno_of([&] { files.append("/tmp/x", "y"); }), ENOSPC);
  EXPECT_EQ(files.bytes_in_memory(), 32u << 20);
}

TEST_F(FilesInABox, AreRealInAMount) {
  Files files(spec_);
  files.make_directories("/workspace/a/b");
  files.write("/workspace/a/b/f", "1");
  files.append("/workspace/a/b/f", "2");
  EXPECT_EQ(read_file(host_ / "a/b/f"), "12");
  EXPECT_EQ(files.kind("/workspace/a/b/f"), FileKind::file);
  std::filesystem::permissions(host_ / "a/b/f", std::filesystem::perms(0755));
  EXPECT_EQ(files.kind("/workspace/a/b/f"), FileKind::program);
  EXPECT_EQ(files.kind("/workspace/a"), FileKind::directory);
  EXPECT_EQ(files.kind("/workspace/none"), FileKind::missing);
}

TEST_F(FilesInABox, AreNotWaitedForWhenTheyArePipes) {
  ASSERT_EQ(::mkfifo((host_ / "pipe").c_str(), 0644), 0);
  Files files(spec_);
  EXPECT_EQ(files.read("/workspace/pipe"), "");
  EXPECT_EQ(errno_of([&] { files.write("/workspace/pipe", "x"); }), ENXIO);
}

TEST_F(FilesInABox, DoNotMountSystemProgramsWritable) {
  spec_.host_path = "/usr/share";
  EXPECT_THROW(Files{spec_}, Error);
  spec_.host_path_mode = model::MountMode::ro;
  const Files files(spec_);
  EXPECT_EQ(files.kind("/workspace"), FileKind::directory);
}

}  // namespace
}  // namespace caisson::backend::fake
