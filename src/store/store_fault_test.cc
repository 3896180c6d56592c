// The store on file systems that are full or read-only.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>

#include "base/file.h"
#include "base/str.h"
#include "store/scene_for_test.h"
#include "store/store.h"

namespace caisson::store {
namespace {

using testing::HasSubstr;

#define SKIP_UNLESS_MOUNTED(file_system)                                  \
  if (!(file_system).mounted()) {                                         \
    GTEST_SKIP() << "mounting a small file system takes root privileges"; \
  }

// Takes every byte that is left.
void fill_up(const std::filesystem::path& file) {
  const UniqueFd fd = open_file(file, O_WRONLY | O_CREAT, 0600);
  const std::string block(4096, 'f');
  while (::write(fd.get(), block.data(), block.size()) > 0) continue;
  ASSERT_EQ(errno, ENOSPC);
}

template <typename Action>
std::string failure_of(ErrorCode code, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "there was no error";
  return "";
}

SessionRecord large(const std::string& id) {
  SessionRecord record = sample(id);
  record.settings.image = std::string(200'000, 'b');
  return record;
}

TEST(FullDisk, FailsAWriteByNameAndWorksAgainWhenThereIsRoom) {
  const SmallFileSystem small("size=2m");
  SKIP_UNLESS_MOUNTED(small);
  Store store(small / "caisson.db");
  store.put_session(sample("a"));
  store.put_session(sample("b"));
  fill_up(small / "filler");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(failure_of(ErrorCode::storage_full, [&] { store.put_session(large("c")); }),
                HasSubstr("caisson.db: no space is left on its file system: nothing was changed"));
  }
  EXPECT_EQ(store.sessions().size(), 2u);
  std::filesystem::remove(small / "filler");
  store.put_session(large("c"));
  EXPECT_EQ(store.sessions().size(), 3u);
}

TEST(FullDisk, StillLetsSessionsBeReadAndRemoved) {
  const SmallFileSystem small("size=2m");
  SKIP_UNLESS_MOUNTED(small);
  Store store(small / "caisson.db");
  for (int i = 0; i < 100; ++i) store.put_session(sample(str("s", i)));
  fill_up(small / "filler");
  const model::Timestamp later(std::chrono::microseconds(1'800'000'000'000));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(store.remove_session(str("s", i)));
  EXPECT_EQ(store.sessions().size(), 50u);
  // The space of the removed ones is there for others.
  EXPECT_TRUE(store.touch_session("s50", later));
  store.put_session(sample("new"));
}

TEST(FullDisk, KeepsADamagedFileInItsPlaceUntilItCanBeReplaced) {
  const SmallFileSystem small("size=2m");
  SKIP_UNLESS_MOUNTED(small);
  {
    Store store(small / "caisson.db");
    store.put_session(sample("a"));
    store.put_session(sample("b"));
  }
  const std::string content = read_file(small / "caisson.db");
  const std::size_t place = content.find("value of a");
  ASSERT_NE(place, std::string::npos);
  const UniqueFd fd = open_file(small / "caisson.db", O_WRONLY);
  ASSERT_EQ(::pwrite(fd.get(), "w", 1, static_cast<off_t>(place)), 1);
  fill_up(small / "filler");
  failure_of(ErrorCode::storage_full, [&] { Store store(small / "caisson.db"); });
  std::filesystem::remove(small / "filler");
  const Store store(small / "caisson.db");
  EXPECT_TRUE(store.opened().recovered);
  ASSERT_EQ(store.sessions().size(), 1u);
  EXPECT_EQ(store.sessions().front(), sample("b"));
}

TEST(FullInodes, AreNamedAsTheCause) {
  const SmallFileSystem small("size=2m,nr_inodes=3");
  SKIP_UNLESS_MOUNTED(small);
  open_file(small / "one", O_WRONLY | O_CREAT, 0600);
  open_file(small / "two", O_WRONLY | O_CREAT, 0600);
  EXPECT_THAT(failure_of(ErrorCode::storage_full, [&] { Store store(small / "caisson.db"); }),
              HasSubstr(": no inodes are left on its file system"));
  small.remount(0, "nr_inodes=20");
  Store store(small / "caisson.db");
  store.put_session(sample("a"));
}

TEST(FullInodes, AreNamedWhenTheLogCannotBeMade) {
  const SmallFileSystem small("size=2m,nr_inodes=20");
  SKIP_UNLESS_MOUNTED(small);
  { Store store(small / "caisson.db"); }
  const auto make = [&](int i) {
    const auto name = small / str(i);
    return UniqueFd(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).valid();
  };
  for (int i = 0; make(i); ++i) continue;
  ASSERT_EQ(errno, ENOSPC);
  EXPECT_THAT(failure_of(ErrorCode::storage_full, [&] { Store store(small / "caisson.db"); }),
              HasSubstr(": no inodes are left on its file system"));
  for (int i = 0; i < 4; ++i) std::filesystem::remove(small / str(i));
  Store store(small / "caisson.db");
  store.put_session(sample("a"));
}

TEST(ReadOnlyFileSystem, IsNamedAsTheCause) {
  const SmallFileSystem small("size=2m");
  SKIP_UNLESS_MOUNTED(small);
  {
    Store store(small / "caisson.db");
    store.put_session(sample("a"));
  }
  small.remount(MS_RDONLY);
  EXPECT_THAT(failure_of(ErrorCode::system_error, [&] { Store store(small / "caisson.db"); }),
              HasSubstr("caisson.db: its file system is mounted read-only"));
  EXPECT_THAT(failure_of(ErrorCode::system_error, [&] { Store store(small / "other.db"); }),
              HasSubstr("its file system is mounted read-only"));
  small.remount(0);
  const Store store(small / "caisson.db");
  EXPECT_FALSE(store.opened().recovered);
  EXPECT_EQ(store.sessions().size(), 1u);
}

}  // namespace
}  // namespace caisson::store
