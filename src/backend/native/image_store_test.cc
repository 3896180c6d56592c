#include "backend/native/image_store.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <functional>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_directory.h"

namespace caisson::backend::native {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

struct stat status_of(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) < 0) ADD_FAILURE() << path << ": " << error_text(errno);
  return info;
}

unsigned mode_of(const fs::path& path) {
  return status_of(path).st_mode & 07777u;
}

bool present(const fs::path& path) {
  return fs::exists(fs::symlink_status(path));
}

// A tar made entry by entry, with names and links that no honest program would write.
class Tar {
 public:
  explicit Tar(fs::path path,
               std::function<int(archive*)> add_filter = ::archive_write_add_filter_none)
      : path_(std::move(path)), writer_(::archive_write_new()) {
    ::archive_write_set_format_pax(writer_);
    usable_ = add_filter(writer_) == ARCHIVE_OK;
    EXPECT_EQ(::archive_write_open_filename(writer_, path_.c_str()), ARCHIVE_OK);
  }
  ~Tar() { ::archive_write_free(writer_); }
  Tar(const Tar&) = delete;
  Tar& operator=(const Tar&) = delete;

  Tar& file(const std::string& name, const std::string& content = "content", unsigned mode = 0644) {
    return add(name, AE_IFREG, mode, content);
  }
  Tar& directory(const std::string& name, unsigned mode = 0755) {
    return add(name, AE_IFDIR, mode);
  }
  Tar& symlink(const std::string& name, const std::string& target) {
    return add(name, AE_IFLNK, 0777, "",
               [&](archive_entry* e) { ::archive_entry_set_symlink(e, target.c_str()); });
  }
  Tar& hard_link(const std::string& name, const std::string& target) {
    return add(name, AE_IFREG, 0644, "",
               [&](archive_entry* e) { ::archive_entry_set_hardlink(e, target.c_str()); });
  }
  Tar& owned(const std::string& name, std::int64_t uid, std::int64_t gid) {
    return add(name, AE_IFREG, 0644, "x", [&](archive_entry* e) {
      ::archive_entry_set_uid(e, uid);
      ::archive_entry_set_gid(e, gid);
    });
  }
  Tar& add(const std::string& name, unsigned type, unsigned mode, const std::string& content = "",
           const std::function<void(archive_entry*)>& change = {}) {
    archive_entry* entry = ::archive_entry_new();
    ::archive_entry_copy_pathname(entry, name.c_str());
    ::archive_entry_set_filetype(entry, type);
    ::archive_entry_set_perm(entry, mode);
    ::archive_entry_set_mtime(entry, 1'000'000'000, 0);
    ::archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    if (change) change(entry);
    EXPECT_GE(::archive_write_header(writer_, entry), ARCHIVE_WARN)
        << ::archive_error_string(writer_);
    if (!content.empty()) ::archive_write_data(writer_, content.data(), content.size());
    ::archive_entry_free(entry);
    return *this;
  }
  bool usable() const { return usable_; }
  fs::path close() {
    EXPECT_EQ(::archive_write_close(writer_), ARCHIVE_OK);
    return path_;
  }

 private:
  fs::path path_;
  archive* writer_;
  bool usable_ = true;
};

class ImageStoreTest : public testing::Test {
 protected:
  ImageStoreTest() {
    source_ = directory_ / "source";
    outside_ = directory_ / "outside";
    store_ = ImageStore(state());
    fs::create_directories(source_);
    fs::create_directories(outside_);
    replace_file(outside_ / "precious", "untouched");
  }

  fs::path state() const { return directory_ / "state"; }
  fs::path tar() const { return directory_ / "image.tar"; }

  // Names in images/, without the lock.
  std::vector<std::string> stored() const {
    std::vector<std::string> names;
    if (!fs::exists(state() / "images")) return names;
    for (const auto& entry : fs::directory_iterator(state() / "images")) {
      if (entry.path().filename() != ".lock") names.push_back(entry.path().filename());
    }
    return names;
  }

  // The code and message of the refusal; afterwards nothing may be left.
  std::string refusal(const fs::path& source, ErrorCode code = ErrorCode::validation_error) {
    try {
      store_.import("hostile", source);
    } catch (const Error& error) {
      EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
      EXPECT_THAT(stored(), IsEmpty());
      EXPECT_EQ(read_file(outside_ / "precious"), "untouched");
      EXPECT_EQ(std::distance(fs::directory_iterator(outside_), fs::directory_iterator()), 1);
      EXPECT_THAT(error.what(), HasSubstr("image \"hostile\" from "));
      return error.what();
    }
    ADD_FAILURE() << "it was imported";
    store_.remove("hostile");
    return "";
  }

  const TemporaryDirectory temporary_;
  const fs::path directory_ = temporary_.path();
  fs::path source_;
  fs::path outside_;
  ImageStore store_{""};
};

const bool kRoot = ::geteuid() == 0;

// Runs on a thread of its own, whose mounts or user may differ from those of the process.
void on_thread(const std::function<void()>& action) {
  std::thread(action).join();
}

bool own_mounts() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

TEST_F(ImageStoreTest, ImportsATarWithModesLinksTimesAndOwners) {
  Tar(tar())
      .directory("usr/", 0750)
      .file("usr/tool", "a tool", 0751)
      .symlink("bin", "usr")
      .symlink("absolute", "/nowhere/at/all")
      .hard_link("usr/same", "usr/tool")
      .file("deep/without/directories", "x", 0400)
      .owned("owned", 1234, 5678)
      .close();
  const Image image = store_.import("base", tar());
  const fs::path root = image.rootfs;
  EXPECT_EQ(root, state() / "images/base/rootfs");
  EXPECT_EQ(mode_of(root), 0755u);
  EXPECT_EQ(mode_of(root / "usr"), 0750u);
  EXPECT_EQ(read_file(root / "usr/tool"), "a tool");
  EXPECT_EQ(mode_of(root / "usr/tool"), 0751u);
  EXPECT_EQ(status_of(root / "usr/tool").st_mtim.tv_sec, 1'000'000'000);
  EXPECT_EQ(status_of(root / "usr/tool").st_ino, status_of(root / "usr/same").st_ino);
  EXPECT_EQ(fs::read_symlink(root / "bin"), "usr");
  EXPECT_EQ(fs::read_symlink(root / "absolute"), "/nowhere/at/all");
  EXPECT_EQ(mode_of(root / "deep/without"), 0755u);
  if (kRoot) {
    EXPECT_EQ(status_of(root / "owned").st_uid, 1234u);
    EXPECT_EQ(status_of(root / "owned").st_gid, 5678u);
  }
  EXPECT_EQ(image.source, ImageSource::archive);
  EXPECT_EQ(image.entries, 7u);
  EXPECT_EQ(image.bytes, 8u);
  EXPECT_EQ(image.owners_kept, kRoot);
}

TEST_F(ImageStoreTest, ReadsTheUsualCompressions) {
  const std::pair<const char*, std::function<int(archive*)>> filters[] = {
      {"gzip", ::archive_write_add_filter_gzip},
      {"bzip2", ::archive_write_add_filter_bzip2},
      {"xz", ::archive_write_add_filter_xz},
      {"zstd", ::archive_write_add_filter_zstd}};
  for (const auto& [name, filter] : filters) {
    Tar archive(tar(), filter);
    if (!archive.usable()) continue;  // this libarchive was built without it
    archive.file("f", std::string(100'000, 'z')).close();
    EXPECT_EQ(fs::file_size(store_.import(name, tar()).rootfs / "f"), 100'000u) << name;
  }
  EXPECT_GE(store_.list().size(), 1u);
}

TEST_F(ImageStoreTest, ReadsATarFromAPipe) {
  Tar(tar()).file("f", std::string(300'000, 'p')).close();
  auto [read_end, write_end] = make_pipe();
  std::thread writer([&] {
    write_all(write_end.get(), read_file(tar()), "pipe");
    write_end.reset();
  });
  const Image image = store_.import("piped", "/dev/fd/" + std::to_string(read_end.get()));
  writer.join();
  EXPECT_EQ(fs::file_size(image.rootfs / "f"), 300'000u);
}

TEST_F(ImageStoreTest, KeepsNamesByteForByte) {
  const std::vector<std::string> names = {"caf\xC3\xA9", "raw\xFF", "back\\slash", "new\nline",
                                          "..a"};
  Tar archive(tar());
  for (const std::string& name : names) archive.file(name);
  archive.close();
  const Image image = store_.import("names", tar());
  for (const std::string& name : names) EXPECT_TRUE(present(image.rootfs / name)) << name;
}

TEST_F(ImageStoreTest, MakesLeadingSlashesRelative) {
  Tar(tar()).file("/etc/one").file("//./etc//two").hard_link("/three", "/etc/one").close();
  const Image image = store_.import("absolute", tar());
  EXPECT_TRUE(present(image.rootfs / "etc/one"));
  EXPECT_TRUE(present(image.rootfs / "etc/two"));
  EXPECT_EQ(status_of(image.rootfs / "three").st_nlink, 2u);
}

TEST_F(ImageStoreTest, RefusesNamesThatLeadOutside) {
  for (const char* name : {"../x", "a/../../x", "/../x", "a/..", ".."}) {
    Tar(tar()).file(name).close();
    EXPECT_THAT(refusal(tar()), HasSubstr("leads outside")) << name;
  }
  Tar(tar()).file("a").hard_link("b", "../outside/precious").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("leads outside"));
}

TEST_F(ImageStoreTest, NeverWritesThroughASymlink) {
  const std::string outside = outside_.native();
  const std::string relative = "../../../../outside";  // from rootfs to the directory itself
  for (const std::string& target : {outside, relative}) {
    Tar(tar()).symlink("way", target).file("way/x").close();
    EXPECT_THAT(refusal(tar()), HasSubstr("not a directory")) << "a file below";
    Tar(tar()).symlink("way", target).directory("way").file("way/x").close();
    EXPECT_THAT(refusal(tar()), HasSubstr("not a directory")) << "pretends to be a directory";
    Tar(tar()).symlink("way", target).directory("way/d").close();
    EXPECT_THAT(refusal(tar()), HasSubstr("not a directory")) << "a directory below";
    Tar(tar()).directory("a").symlink("a/way", target).file("a/way/d/x").close();
    EXPECT_THAT(refusal(tar()), HasSubstr("not a directory")) << "deeper";
    Tar(tar()).symlink("way", target).hard_link("mine", "way/precious").close();
    EXPECT_THAT(refusal(tar()), HasSubstr("not a directory")) << "a hard link out";
    Tar(tar()).symlink("way", target + "/precious").file("way", "overwritten").close();
    EXPECT_THAT(refusal(tar()), HasSubstr("occurs twice")) << "onto the symlink itself";
    Tar(tar()).file("d/x").symlink("d", target).file("d/y").close();
    EXPECT_THAT(refusal(tar()), HasSubstr("occurs twice")) << "a directory replaced";
  }
}

TEST_F(ImageStoreTest, LinksToASymlinkItselfAndNotToItsTarget) {
  Tar(tar()).symlink("s", outside_ / "precious").hard_link("h", "s").close();
  const Image image = store_.import("links", tar());
  EXPECT_TRUE(fs::is_symlink(image.rootfs / "h"));
  EXPECT_EQ(status_of(outside_ / "precious").st_nlink, 1u);
}

TEST_F(ImageStoreTest, RefusesEntriesThatContradictEachOther) {
  Tar(tar()).file("a", "1").file("a", "2").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("\"a\" occurs twice"));
  Tar(tar()).file("a").file("a/b").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("not a directory"));
  Tar(tar()).hard_link("b", "absent").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("not before it"));
  Tar(tar()).directory("d").hard_link("e", "d").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("hard link to a directory"));
}

TEST_F(ImageStoreTest, RefusesOwnersThatCannotExist) {
  if (!kRoot) GTEST_SKIP() << "owners are kept for root only";
  Tar(tar()).owned("x", 0xFFFFFFFFll, 0).close();
  EXPECT_THAT(refusal(tar()), HasSubstr("owner that cannot exist"));
}

TEST_F(ImageStoreTest, DropsSetUserIdAndSetGroupId) {
  Tar(tar()).file("su", "x", 06755).directory("d", 03777).close();
  const Image image = store_.import("setuid", tar());
  EXPECT_EQ(mode_of(image.rootfs / "su"), 0755u);
  EXPECT_EQ(mode_of(image.rootfs / "d"), 01777u);
}

TEST_F(ImageStoreTest, LeavesOutSpecialFilesOfATarAndCountsThem) {
  const auto device = [](archive_entry* entry) { ::archive_entry_set_rdev(entry, makedev(1, 3)); };
  Tar(tar())
      .add("dev/null", AE_IFCHR, 0666, "", device)
      .add("dev/disk", AE_IFBLK, 0666, "", device)
      .add("fifo", AE_IFIFO, 0666)
      .file("f")
      .close();
  const Image image = store_.import("special", tar());
  EXPECT_EQ(image.skipped, 3u);
  EXPECT_FALSE(present(image.rootfs / "dev/null"));
  EXPECT_FALSE(present(image.rootfs / "fifo"));
  EXPECT_THAT(image.notes, Contains(HasSubstr("3 entries were left out")));
}

TEST_F(ImageStoreTest, HoldsItsLimitsAgainstWhatReallyArrives) {
  store_ = ImageStore(state(), {.entries = 5, .bytes = 1000, .depth = 3});
  Tar(tar(), ::archive_write_add_filter_gzip).file("bomb", std::string(50u << 20, '\0')).close();
  EXPECT_LT(fs::file_size(tar()), 100'000u);
  EXPECT_THAT(refusal(tar()), HasSubstr("more than 1000 bytes"));
  Tar(tar()).file("a", std::string(999, 'x')).file("b", "12").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("more than 1000 bytes"));
  Tar(tar()).file("a/b/c").file("a/b/d/e").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("more than 3 directories deep"));
  Tar many(tar());
  for (const char* name : {"1", "2", "3", "4", "5", "6"}) many.add(name, AE_IFIFO, 0644);
  many.close();
  EXPECT_THAT(refusal(tar()), HasSubstr("more than 5 entries"));
}

TEST_F(ImageStoreTest, RefusesWhatIsNoTar) {
  EXPECT_THAT(refusal(directory_ / "absent"), HasSubstr("No such file or directory"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("neither a directory nor a tar"));
  replace_file(tar(), std::string(5000, 'n'));
  EXPECT_THAT(refusal(tar()), HasSubstr("no tar archive that can be read"));
  replace_file(tar(), "");
  refusal(tar());
  Tar(tar()).close();
  EXPECT_THAT(refusal(tar()), HasSubstr("empty"));
}

TEST_F(ImageStoreTest, RefusesATarThatEndsTooEarly) {
  std::string noise(100'000, ' ');  // something that does not compress to nothing
  std::minstd_rand random;
  for (char& c : noise) c = static_cast<char>(random());
  for (const auto& filter : {::archive_write_add_filter_none, ::archive_write_add_filter_gzip}) {
    Tar(tar(), filter).file("a").file("f", noise).close();
    fs::resize_file(tar(), fs::file_size(tar()) / 2);
    EXPECT_THAT(refusal(tar()), HasSubstr("no tar archive that can be read"));
  }
}

TEST_F(ImageStoreTest, RefusesArchivesOfLayersAndNamesTheNextStep) {
  const std::string digest(64, 'a');
  Tar(tar()).directory(digest).file(digest + "/VERSION").file(digest + "/layer.tar").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("docker export"));
  Tar(tar()).file(digest + ".tar").file("manifest.json").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("docker export"));
  Tar(tar()).directory("blobs").directory("blobs/sha256").file("blobs/sha256/" + digest).close();
  EXPECT_THAT(refusal(tar()), HasSubstr("docker export"));
  Tar(tar()).file("layer-1").file("manifest.json", "[{\"Config\":\"c\",\"Layers\":[]}]").close();
  EXPECT_THAT(refusal(tar()), HasSubstr("docker export"));
  replace_file(source_ / "oci-layout", "{}");
  EXPECT_THAT(refusal(source_), HasSubstr("docker export"));
}

TEST_F(ImageStoreTest, AcceptsAnImageWithAManifestOfItsOwn) {
  Tar(tar()).file("manifest.json", "{\"name\": \"web app\"}").file("app/layer.tar").close();
  EXPECT_EQ(store_.import("app", tar()).entries, 2u);
}

// A directory with every kind of entry.
void fill_directory(const fs::path& source) {
  fs::create_directories(source / "bin");
  replace_file(source / "bin/busybox", "an executable", 0755);
  fs::create_symlink("/bin/busybox", source / "bin/sh");
  fs::create_symlink("nowhere", source / "dangling");
  fs::create_hard_link(source / "bin/busybox", source / "bin/ls");
  fs::create_directories(source / "empty");
  fs::create_directories(source / "var/tmp");
  fs::permissions(source / "var/tmp", fs::perms(01777));
  replace_file(source / "su", "x");
  fs::permissions(source / "su", fs::perms(06755));
  ASSERT_EQ(::mkfifo((source / "fifo").c_str(), 0600), 0);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX};
  const std::string path = source / "socket";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

TEST_F(ImageStoreTest, ImportsADirectoryWithEveryKindOfEntry) {
  fill_directory(source_);
  std::uint64_t special = 2;
  if (::mknod((source_ / "null").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0) ++special;
  if (kRoot) ASSERT_EQ(::lchown((source_ / "dangling").c_str(), 11, 22), 0);
  fs::permissions(source_, fs::perms(0700));
  const Image image = store_.import("directory", source_);
  const fs::path root = image.rootfs;
  EXPECT_EQ(image.source, ImageSource::directory);
  EXPECT_EQ(image.skipped, special);
  EXPECT_EQ(mode_of(root), 0755u) << "the root of a box is for everybody in it";
  EXPECT_EQ(read_file(root / "bin/busybox"), "an executable");
  EXPECT_EQ(mode_of(root / "bin/busybox"), 0755u);
  EXPECT_EQ(status_of(root / "bin/busybox").st_ino, status_of(root / "bin/ls").st_ino);
  EXPECT_NE(status_of(root / "bin/busybox").st_ino, status_of(source_ / "bin/busybox").st_ino);
  EXPECT_EQ(status_of(root / "su").st_mtim.tv_sec, status_of(source_ / "su").st_mtim.tv_sec);
  EXPECT_EQ(fs::read_symlink(root / "bin/sh"), "/bin/busybox");
  EXPECT_EQ(fs::read_symlink(root / "dangling"), "nowhere");
  if (kRoot) EXPECT_EQ(status_of(root / "dangling").st_gid, 22u);
  EXPECT_TRUE(fs::is_directory(root / "empty"));
  EXPECT_EQ(mode_of(root / "var/tmp"), 01777u);
  EXPECT_EQ(mode_of(root / "su"), 0755u);
  for (const char* name : {"fifo", "socket", "null"}) EXPECT_FALSE(present(root / name)) << name;
  EXPECT_THAT(image.notes, Not(Contains(HasSubstr("/bin/sh"))));
}

TEST_F(ImageStoreTest, KeepsHolesOfFiles) {
  const UniqueFd fd = open_file(source_ / "sparse", O_WRONLY | O_CREAT, 0644);
  ASSERT_EQ(::pwrite(fd.get(), "x", 1, 10 << 20), 1);
  ASSERT_EQ(::ftruncate(fd.get(), 20 << 20), 0);
  const Image image = store_.import("sparse", source_);
  EXPECT_EQ(status_of(image.rootfs / "sparse").st_size, 20 << 20);
  EXPECT_LT(status_of(image.rootfs / "sparse").st_blocks * 512, 1 << 20);
  EXPECT_LT(image.bytes, 1u << 20);
  EXPECT_EQ(read_file(image.rootfs / "sparse"), read_file(source_ / "sparse"));
}

TEST_F(ImageStoreTest, LeavesOutTheStoreItself) {
  store_ = ImageStore(source_ / "state");
  replace_file(source_ / "f", "x");
  const Image image = store_.import("self", source_);
  EXPECT_TRUE(present(image.rootfs / "f"));
  EXPECT_TRUE(present(image.rootfs / "state"));
  EXPECT_FALSE(present(image.rootfs / "state/images"));
}

TEST_F(ImageStoreTest, DoesNotCrossIntoOtherFileSystems) {
  on_thread([&] {
    if (!own_mounts()) GTEST_SKIP() << "mounting takes root";
    fs::create_directories(source_ / "other");
    ASSERT_EQ(::mount("tmpfs", (source_ / "other").c_str(), "tmpfs", 0, nullptr), 0);
    replace_file(source_ / "other/f", "x");
    const Image image = store_.import("mounts", source_);
    EXPECT_TRUE(fs::is_directory(image.rootfs / "other"));
    EXPECT_TRUE(fs::is_empty(image.rootfs / "other"));
    EXPECT_THAT(image.notes, Contains(HasSubstr("1 mount points were left empty")));
    EXPECT_EQ(::umount((source_ / "other").c_str()), 0);
  });
}

TEST_F(ImageStoreTest, SaysThatTheDiskIsFullAndLeavesNothing) {
  on_thread([&] {
    fs::create_directories(state());
    if (!own_mounts()) GTEST_SKIP() << "mounting takes root";
    ASSERT_EQ(::mount("tmpfs", state().c_str(), "tmpfs", 0, "size=256k"), 0);
    Tar(tar()).file("small").file("large", std::string(1u << 20, 'x')).close();
    EXPECT_THAT(refusal(tar(), ErrorCode::storage_full), HasSubstr("no space left"));
    EXPECT_EQ(::umount(state().c_str()), 0);
  });
}

TEST_F(ImageStoreTest, ImportsAsAnOrdinaryUserWithoutOwners) {
  if (!kRoot) GTEST_SKIP() << "becoming an ordinary user takes root";
  fs::permissions(directory_, fs::perms(0777));
  Tar(tar())
      .directory("closed", 0500)
      .file("closed/f")
      .directory("shut", 0)
      .owned("owned", 1234, 5678)
      .close();
  on_thread([&] {
    // The system calls, not the library's functions: these change this thread alone.
    ASSERT_EQ(::syscall(SYS_setresgid, 65534, 65534, 65534), 0);
    ASSERT_EQ(::syscall(SYS_setresuid, 65534, 65534, 65534), 0);
    const Image image = store_.import("plain", tar());
    EXPECT_FALSE(image.owners_kept);
    EXPECT_THAT(image.notes, Contains(HasSubstr("owners of files were not kept")));
    EXPECT_EQ(status_of(image.rootfs / "owned").st_uid, 65534u);
    EXPECT_TRUE(present(image.rootfs / "closed/f"));
    fs::permissions(image.rootfs / "shut", fs::perms(0));
    store_.remove("plain");
    EXPECT_THAT(stored(), IsEmpty());
  });
}

TEST_F(ImageStoreTest, MakesWhatABoxMountsOver) {
  Tar(tar()).file("f").close();
  const fs::path root = store_.import("bare", tar()).rootfs;
  for (const char* name : {"workspace", "proc", "dev", "tmp", "run", "home/box", "etc"}) {
    EXPECT_TRUE(fs::is_directory(root / name)) << name;
  }
  for (const char* name : {"etc/resolv.conf", "etc/hosts", "etc/passwd", "etc/group"}) {
    EXPECT_TRUE(fs::is_regular_file(root / name)) << name;
  }
  EXPECT_EQ(mode_of(root / "tmp"), 01777u);
}

TEST_F(ImageStoreTest, LetsSymlinksGiveWayToMountPoints) {
  Tar(tar())
      .symlink("tmp", outside_)
      .symlink("home", outside_)
      .symlink("etc/resolv.conf", outside_ / "precious")
      .file("etc/passwd", "root:x:0:0::/:/bin/sh\n")
      .close();
  const Image image = store_.import("links", tar());
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(image.rootfs / "tmp")));
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(image.rootfs / "home/box")));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(image.rootfs / "etc/resolv.conf")));
  EXPECT_EQ(read_file(image.rootfs / "etc/passwd"), "root:x:0:0::/:/bin/sh\n");
  EXPECT_FALSE(present(outside_ / "box"));
  EXPECT_EQ(read_file(outside_ / "precious"), "untouched");
  EXPECT_THAT(image.notes, Contains("/tmp was not a directory: an empty one takes its place"));
}

TEST_F(ImageStoreTest, SaysWhenThereIsNoShell) {
  Tar(tar()).file("app", "x", 0755).close();
  EXPECT_THAT(store_.import("bare", tar()).notes, Contains(HasSubstr("no /bin/sh")));
  Tar(tar())
      .symlink("bin", "usr/bin")
      .file("usr/bin/dash")
      .symlink("usr/bin/sh", "/bin/dash")
      .close();
  EXPECT_THAT(store_.import("merged", tar()).notes, Not(Contains(HasSubstr("no /bin/sh"))));
  Tar(tar()).symlink("bin", "/bin").close();  // resolved in the image, not on the host
  EXPECT_THAT(store_.import("outward", tar()).notes, Contains(HasSubstr("no /bin/sh")));
}

TEST_F(ImageStoreTest, FindsListsAndRemovesImages) {
  Tar(tar()).file("f").close();
  EXPECT_THAT(store_.list(), IsEmpty());
  const Image made = store_.import("python/slim:3.12", tar());
  store_.import("alpine", tar());
  const std::vector<Image> images = ImageStore(state()).list();
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0].name, "alpine");
  EXPECT_EQ(images[1].name, "python/slim:3.12");
  const Image found = store_.get("python/slim:3.12");
  EXPECT_EQ(found.rootfs, made.rootfs);
  EXPECT_EQ(found.bytes, made.bytes);
  EXPECT_EQ(found.entries, made.entries);
  EXPECT_EQ(found.source, ImageSource::archive);
  EXPECT_EQ(found.notes, made.notes);
  EXPECT_THAT(found.created_at, testing::MatchesRegex("[0-9-]+T[0-9:]+Z"));
  store_.remove("python/slim:3.12");
  EXPECT_FALSE(store_.find("python/slim:3.12").has_value());
  EXPECT_EQ(stored(), std::vector<std::string>{"alpine"});
}

TEST_F(ImageStoreTest, NamesTheNextStepWhenAnImageIsThereOrNot) {
  Tar(tar()).file("f").close();
  store_.import("a", tar());
  try {
    store_.import("a", tar());
    FAIL() << "it was imported twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::image_conflict);
    EXPECT_THAT(error.what(), HasSubstr("caisson image rm a"));
  }
  for (const auto& action : std::initializer_list<std::function<void()>>{
           [&] { store_.get("b"); }, [&] { store_.remove("b"); }}) {
    try {
      action();
      FAIL() << "there is no such image";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::image_not_found);
      EXPECT_THAT(error.what(), HasSubstr("caisson image import b"));
    }
  }
}

TEST_F(ImageStoreTest, RefusesNamesThatAreNoImageNames) {
  const std::vector<std::string> wrong = {
      "",    ".hidden", "/abs", "-rm",      "Upper",
      "a b", "a+b",     "a\n",  "\xC3\xA9", std::string("a\0", 2),
      "a=b", "_a",      "a%2f", "..",       std::string(129, 'a')};
  for (const std::string& name : wrong) {
    EXPECT_THROW(store_.import(name, source_), Error) << name;
    EXPECT_THROW(store_.find(name), Error) << name;
    EXPECT_THROW(store_.remove(name), Error) << name;
  }
}

TEST_F(ImageStoreTest, TakesNoImageByTheNameOfTheDefaultOne) {
  for (const char* name : {"host", "rockchin/langbot-sandbox:v2"}) {
    try {
      store_.import(name, source_);
      ADD_FAILURE() << name << " is hidden by the default image, and was imported";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::validation_error);
      EXPECT_THAT(error.what(), HasSubstr("another name"));
    }
  }
  EXPECT_THAT(stored(), IsEmpty());
}

TEST_F(ImageStoreTest, KeepsSimilarNamesApart) {
  const std::vector<std::string> names = {
      "a/b", "a:b", "a.b", "a-b", "a_b", "a", "a/../b", std::string("a") + std::string(127, '/')};
  for (const std::string& name : names) store_.import(name, source_);
  EXPECT_EQ(stored().size(), names.size());
  for (const std::string& name : names) {
    EXPECT_EQ(store_.get(name).rootfs.parent_path().parent_path(), state() / "images") << name;
  }
}

TEST_F(ImageStoreTest, ReportsProgressAndStopsWhenTheCallbackThrows) {
  Tar(tar()).file("a", "12345").file("b", "678").close();
  TreeCount last;
  store_.import("watched", tar(), [&](const TreeCount& count) {
    EXPECT_GE(count.bytes, last.bytes);
    EXPECT_GE(count.entries, last.entries);
    last = count;
  });
  EXPECT_EQ(last.entries, 2u);
  EXPECT_EQ(last.bytes, 8u);
  const auto stop = [](const TreeCount& count) {
    if (count.bytes > 0) throw std::runtime_error("stopped");
  };
  EXPECT_THROW(store_.import("stopped", tar(), stop), std::runtime_error);
  EXPECT_EQ(stored(), std::vector<std::string>{"watched"});
}

TEST_F(ImageStoreTest, RemovesLeftoversOfCrashedProcessesButNotTheWorkOfLivingOnes) {
  fs::create_directories(state() / "images/.new-crashed/rootfs/d");
  fs::create_directories(state() / "images/.old-crashed/rootfs");
  fs::create_symlink(outside_, state() / "images/.old-crashed/rootfs/way");
  replace_file(source_ / "f", "x");
  bool nested = false;
  store_.import("outer", source_, [&](const TreeCount&) {
    if (std::exchange(nested, true)) return;
    EXPECT_EQ(stored().size(), 1u) << "only the draft of this import is left";
    ImageStore(state()).import("inner", source_);
    EXPECT_EQ(stored().size(), 2u);
  });
  EXPECT_THAT(stored(), testing::UnorderedElementsAre("inner", "outer"));
  EXPECT_EQ(read_file(outside_ / "precious"), "untouched");
}

TEST_F(ImageStoreTest, GivesANameToTheFirstImportThatEnds) {
  replace_file(source_ / "f", "x");
  bool nested = false;
  try {
    store_.import("same", source_, [&](const TreeCount&) {
      if (!std::exchange(nested, true)) ImageStore(state()).import("same", source_);
    });
    FAIL() << "both were imported";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::image_conflict);
  }
  EXPECT_EQ(stored(), std::vector<std::string>{"same"});
}

TEST_F(ImageStoreTest, RemovesNothingOutsideOfTheImage) {
  Tar(tar()).symlink("way", outside_).symlink("d/way", outside_ / "precious").close();
  store_.import("links", tar());
  store_.remove("links");
  EXPECT_THAT(stored(), IsEmpty());
  EXPECT_EQ(read_file(outside_ / "precious"), "untouched");
}

TEST_F(ImageStoreTest, DoesNotRemoveAnImageInUse) {
  const Image image = store_.import("used", source_);
  UniqueFd user = open_file(image.rootfs.parent_path(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(user.get(), LOCK_SH), 0);
  try {
    store_.remove("used");
    FAIL() << "it was removed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::image_conflict);
    EXPECT_THAT(error.what(), HasSubstr("in use"));
  }
  user.reset();
  store_.remove("used");
  EXPECT_FALSE(store_.find("used").has_value());
}

TEST_F(ImageStoreTest, SaysWhichImageIsDamagedAndStillRemovesIt) {
  const Image image = store_.import("damaged", source_);
  store_.import("whole", source_);
  replace_file(image.rootfs.parent_path() / "image.json", "{");
  EXPECT_EQ(store_.list().size(), 1u);
  EXPECT_THROW(store_.find("damaged"), Error);
  store_.remove("damaged");
  EXPECT_FALSE(store_.find("damaged").has_value());
}

}  // namespace
}  // namespace caisson::backend::native
