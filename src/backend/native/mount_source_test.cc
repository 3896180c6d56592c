#include "backend/native/mount_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson::backend::native {
namespace {

namespace fs = std::filesystem;
using model::MountMode;

class MountSourceTest : public testing::Test {
 protected:
  // The sentence with which the path is refused; "" when it is taken.
  static std::string refused(const std::string& path, MountMode mode = MountMode::ro,
                             std::vector<std::string> protected_paths = {}) {
    try {
      const model::MountRules rules{.protected_paths = std::move(protected_paths), .roots = {}};
      open_mount_source(path, mode, rules);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mount_refused) << error.what();
      return error.what();
    }
    return "";
  }
  static std::string sentence(const std::string& path, const std::string& why) {
    return "host path " + path + " cannot be mounted: " + why;
  }
  static std::string blocked(const std::string& path, const std::string& why) {
    return "host_path " + path + " is blocked for security: " + why;
  }
  static std::string content_at(int directory, const std::string& name) {
    const UniqueFd file = open_file_at(directory, name, O_RDONLY);
    return read_all(file.get(), name);
  }

  TemporaryDirectory host_;
};

TEST_F(MountSourceTest, HoldsADirectoryAndSaysWhoseItIs) {
  fs::create_directory(host_ / "work");
  struct stat info {};
  ASSERT_EQ(::stat((host_ / "work").c_str(), &info), 0);
  const MountSource source = open_mount_source(host_ / "work", MountMode::rw, {});
  EXPECT_EQ(source.resolved, host_ / "work");
  EXPECT_TRUE(source.is_directory);
  EXPECT_EQ(source.owner, info.st_uid);
  EXPECT_EQ(source.group, info.st_gid);
  EXPECT_EQ(source.device, info.st_dev);
  EXPECT_EQ(source.inode, info.st_ino);
}

TEST_F(MountSourceTest, HoldsAFile) {
  replace_file(host_ / "file", "content");
  const MountSource source = open_mount_source(host_ / "file", MountMode::ro, {});
  EXPECT_FALSE(source.is_directory);
  EXPECT_EQ(source.resolved, host_ / "file");
}

TEST_F(MountSourceTest, WantsAnAbsolutePath) {
  for (const char* path : {"", "work", "./work", "C:\\work"}) {
    EXPECT_EQ(refused(path), sentence(path, "it is not an absolute path of this host"));
  }
}

TEST_F(MountSourceTest, RefusesAMissingReadOnlyDirectory) {
  EXPECT_EQ(refused(host_ / "absent"), sentence(host_ / "absent", "it does not exist"));
  EXPECT_FALSE(fs::exists(host_ / "absent"));
}

TEST_F(MountSourceTest, MakesAMissingReadWriteDirectory) {
  const MountSource source = open_mount_source(host_ / "a/b/c", MountMode::rw, {});
  EXPECT_EQ(source.resolved, host_ / "a/b/c");
  EXPECT_TRUE(fs::is_directory(host_ / "a/b/c"));
}

TEST_F(MountSourceTest, MakesNothingInAPlaceThatIsNeverShown) {
  EXPECT_EQ(refused("/etc/caisson-test-absent/x", MountMode::rw),
            blocked("/etc/caisson-test-absent/x", "/etc of the host is never shown to a box"));
  EXPECT_FALSE(fs::exists("/etc/caisson-test-absent"));
  const std::string hidden = host_ / "state/absent";
  EXPECT_EQ(refused(hidden, MountMode::rw, {host_ / "state"}),
            blocked(hidden, (host_ / "state") + " of the host is never shown to a box"));
  EXPECT_FALSE(fs::exists(host_ / "state"));
}

TEST_F(MountSourceTest, RefusesADirectoryThatCannotBeMade) {
  replace_file(host_ / "file", "");
  const std::string path = host_ / "file/below";
  EXPECT_EQ(refused(path, MountMode::rw), sentence(path, "Not a directory"));
}

TEST_F(MountSourceTest, JudgesWhereASymbolicLinkLeads) {
  fs::create_directory(host_ / "real");
  fs::create_symlink("real", host_ / "link");
  EXPECT_EQ(open_mount_source(host_ / "link", MountMode::rw, {}).resolved, host_ / "real");
  fs::create_symlink("/etc", host_ / "etc");
  fs::create_symlink(host_ / "etc", host_ / "chain");
  fs::create_symlink("/", host_ / "root");
  for (const char* name : {"etc", "chain", "etc/ssl"}) {
    EXPECT_EQ(refused(host_ / name),
              blocked(host_ / name, "/etc of the host is never shown to a box"));
  }
  EXPECT_EQ(refused(host_ / "root"),
            blocked(host_ / "root", "it contains /etc, which is never shown to a box"));
  fs::create_directory(host_ / "state");
  fs::create_symlink("state", host_ / "to-state");
  EXPECT_NE(refused(host_ / "to-state", MountMode::ro, {host_ / "state"}), "");
}

TEST_F(MountSourceTest, RefusesANewDirectoryBehindALinkToAPlaceThatIsNeverShown) {
  fs::create_directory(host_ / "state");
  fs::create_symlink("state", host_ / "link");
  const std::string path = host_ / "link/absent";
  EXPECT_EQ(refused(path, MountMode::rw, {host_ / "state"}),
            blocked(path, (host_ / "state") + " of the host is never shown to a box"));
  EXPECT_TRUE(fs::is_empty(host_ / "state"));
}

TEST_F(MountSourceTest, MakesNothingWhereALinkLeadsNowhere) {
  fs::create_symlink(host_ / "nowhere", host_ / "link");
  EXPECT_NE(refused(host_ / "link", MountMode::rw), "");
  EXPECT_FALSE(fs::exists(host_ / "nowhere"));
}

TEST_F(MountSourceTest, GivesANewDirectoryToTheOwnerOfTheOneAboveIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give directories away";
  fs::create_directory(host_ / "home");
  ASSERT_EQ(::chown((host_ / "home").c_str(), 12345, 23456), 0);
  const MountSource source = open_mount_source(host_ / "home/a/b", MountMode::rw, {});
  EXPECT_EQ(source.owner, 12345u);
  EXPECT_EQ(source.group, 23456u);
  struct stat info {};
  ASSERT_EQ(::stat((host_ / "home/a").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 12345u);
}

TEST_F(MountSourceTest, IsNotDeceivedByDotsOrKernelLinks) {
  for (const std::string& path : {host_ / "../../etc", std::string("/proc/self/root/etc"),
                                  std::string("//etc//."), std::string("/usr/../etc/ssl")}) {
    EXPECT_EQ(refused(path), blocked(path, "/etc of the host is never shown to a box"));
  }
  EXPECT_EQ(refused("/proc/self/root"),
            blocked("/proc/self/root", "it contains /etc, which is never shown to a box"));
}

TEST_F(MountSourceTest, KeepsWhatItOpenedWhenALinkIsSwapped) {
  fs::create_directory(host_ / "good");
  fs::create_directory(host_ / "evil");
  replace_file(host_ / "good/name", "good");
  replace_file(host_ / "evil/name", "evil");
  fs::create_symlink("good", host_ / "link");
  const MountSource source = open_mount_source(host_ / "link", MountMode::ro, {});
  fs::remove(host_ / "link");
  fs::create_symlink("evil", host_ / "link");
  EXPECT_EQ(source.resolved, host_ / "good");
  EXPECT_EQ(content_at(source.place.get(), "name"), "good");
  if (::geteuid() != 0) return;
  const UniqueFd mount = detached_mount(source, MountMode::ro, -1);
  EXPECT_EQ(content_at(mount.get(), "name"), "good");
}

TEST_F(MountSourceTest, KeepsWhatItOpenedWhenADirectoryIsReplaced) {
  fs::create_directory(host_ / "work");
  replace_file(host_ / "work/name", "good");
  const MountSource source = open_mount_source(host_ / "work", MountMode::ro, {});
  fs::rename(host_ / "work", host_ / "away");
  fs::create_symlink("/etc", host_ / "work");
  EXPECT_EQ(content_at(source.place.get(), "name"), "good");
  struct stat info {};
  ASSERT_EQ(::fstat(source.place.get(), &info), 0);
  EXPECT_EQ(source.inode, info.st_ino);
}

TEST_F(MountSourceTest, RefusesSocketsFifosAndDevices) {
  const std::string why = "it is neither a directory nor a regular file";
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX};
  (host_ / "socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(refused(host_ / "socket", MountMode::rw), sentence(host_ / "socket", why));
  ASSERT_EQ(::mkfifo((host_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(refused(host_ / "fifo"), sentence(host_ / "fifo", why));
  if (::mknod((host_ / "null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    EXPECT_EQ(refused(host_ / "null"), sentence(host_ / "null", why));
  }
}

TEST_F(MountSourceTest, ShowsSystemProgramsReadOnlyAtMost) {
  EXPECT_EQ(open_mount_source("/usr/bin", MountMode::ro, {}).resolved, "/usr/bin");
  EXPECT_EQ(refused("/usr/bin", MountMode::rw),
            blocked("/usr/bin", "/usr can be mounted read-only at most"));
  EXPECT_EQ(refused("/usr/share/caisson-test-absent", MountMode::rw),
            blocked("/usr/share/caisson-test-absent", "/usr can be mounted read-only at most"));
  EXPECT_FALSE(fs::exists("/usr/share/caisson-test-absent"));
}

TEST_F(MountSourceTest, EscapesWhatItPrints) {
  EXPECT_EQ(refused("/absent\n\x1b[31m").find('\n'), std::string::npos);
}

TEST_F(MountSourceTest, MountsWithoutSetIdProgramsAndDevices) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  fs::create_directory(host_ / "work");
  const MountSource source = open_mount_source(host_ / "work", MountMode::rw, {});
  for (const MountMode mode : {MountMode::ro, MountMode::rw}) {
    const UniqueFd mount = detached_mount(source, mode, -1);
    struct statvfs info {};
    ASSERT_EQ(::fstatvfs(mount.get(), &info), 0);
    EXPECT_NE(info.f_flag & ST_NOSUID, 0u);
    EXPECT_NE(info.f_flag & ST_NODEV, 0u);
    EXPECT_EQ((info.f_flag & ST_RDONLY) != 0, mode == MountMode::ro);
    const UniqueFd file(::openat(mount.get(), "made", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(file.valid(), mode == MountMode::rw);
  }
  EXPECT_TRUE(fs::exists(host_ / "work/made"));
}

}  // namespace
}  // namespace caisson::backend::native
