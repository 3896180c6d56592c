#include "store/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>

#include "base/file.h"
#include "base/str.h"
#include "store/scene_for_test.h"

namespace caisson::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> ids(const Store& store) {
  std::vector<std::string> list;
  for (const SessionRecord& record : store.sessions()) list.push_back(record.session_id);
  return list;
}

// The names in the directory that contain `part`.
std::vector<std::filesystem::path> files_with(const TemporaryDirectory& directory,
                                              const std::string& part) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (entry.path().filename().native().find(part) != std::string::npos) {
      found.push_back(entry.path());
    }
  }
  return found;
}

void overwrite(const std::filesystem::path& file, off_t offset, std::string_view bytes) {
  const UniqueFd fd = open_file(file, O_WRONLY);
  ASSERT_EQ(::pwrite(fd.get(), bytes.data(), bytes.size(), offset),
            static_cast<ssize_t>(bytes.size()));
}

void fill(const std::filesystem::path& file, int count) {
  Store store(file);
  for (int i = 0; i < count; ++i) {
    SessionRecord record = sample(str("session-", i));
    record.settings.image = std::string(400, 'p');
    store.put_session(record);
  }
  store.set_meta("color", "green");
}

TEST(Store, GivesBackWhatWasPutAfterItIsOpenedAgain) {
  const TemporaryDirectory directory;
  SessionRecord full = sample("full");
  full.settings.cpus = 0.1 + 0.2;
  full.settings.host_path = "/srv/a";
  full.settings.extra_mounts = {{"/srv/b", "/b", model::MountMode::ro}};
  full.settings.persistent = true;
  {
    Store store(directory / "caisson.db");
    EXPECT_FALSE(store.opened().recovered);
    EXPECT_EQ(store.opened().report, "");
    EXPECT_THAT(store.sessions(), IsEmpty());
    store.put_session(full);
    store.put_session(sample("second"));
    store.set_meta("key", "value");
  }
  const Store store(directory / "caisson.db");
  EXPECT_THAT(store.sessions(), ElementsAre(full, sample("second")));
  EXPECT_EQ(store.find_meta("key"), "value");
  EXPECT_EQ(store.find_meta("other"), std::nullopt);
}

TEST(Store, KeepsEveryFractionExactly) {
  const TemporaryDirectory directory;
  Store store(directory / "caisson.db");
  SessionRecord record = sample("s");
  for (double cpus = 0.1; cpus < 8000; cpus = std::nextafter(cpus * 1.7, 1e9)) {
    record.settings.cpus = cpus;
    store.put_session(record);
    ASSERT_EQ(store.sessions().front().settings.cpus, cpus);
  }
}

TEST(Store, TakesAnyIdThatIsUtf8) {
  const TemporaryDirectory directory;
  Store store(directory / "caisson.db");
  const std::vector<std::string> all = {"a'b\"c",    "\xe7\xae\xb1\xe5\xad\x90", "%_\\", "A", "a",
                                        "new\nline", std::string(10'000, 'x')};
  for (const std::string& id : all) store.put_session(sample(id));
  EXPECT_EQ(ids(store), all);
  for (const std::string& id : all) EXPECT_TRUE(store.remove_session(id)) << id;
  EXPECT_THAT(store.sessions(), IsEmpty());
}

TEST(Store, RefusesWhatItCouldNotReadAgain) {
  const TemporaryDirectory directory;
  Store store(directory / "caisson.db");
  SessionRecord bad_spec = sample("s");
  bad_spec.settings.image = "\xff";
  SessionRecord invalid = sample("s");
  invalid.settings.memory_mb = -1;
  for (const SessionRecord& record : {sample("\xff"), bad_spec, invalid}) {
    try {
      store.put_session(record);
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::validation_error) << error.what();
    }
  }
  EXPECT_THAT(store.sessions(), IsEmpty());
}

TEST(Store, ReplacesTouchesAndRemovesById) {
  const TemporaryDirectory directory;
  Store store(directory / "caisson.db");
  store.put_session(sample("a"));
  store.put_session(sample("b"));
  SessionRecord changed = sample("a");
  changed.owner = 9;
  store.put_session(changed);
  const model::Timestamp later(std::chrono::microseconds(1'800'000'000'000));
  EXPECT_TRUE(store.touch_session("a", later));
  changed.last_used_at = later;
  EXPECT_THAT(store.sessions(), ElementsAre(changed, sample("b")));
  EXPECT_FALSE(store.touch_session("c", later));
  EXPECT_TRUE(store.remove_session("a"));
  EXPECT_FALSE(store.remove_session("a"));
  EXPECT_THAT(ids(store), ElementsAre("b"));
  store.set_meta("k", "1");
  store.set_meta("k", "");
  EXPECT_EQ(store.find_meta("k"), "");
}

TEST(Store, IsReadableForItsUserOnly) {
  const TemporaryDirectory directory;
  Store store(directory / "caisson.db");
  store.put_session(sample("a"));
  for (const std::filesystem::path& file : files_with(directory, "caisson.db")) {
    struct stat status {};
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0600u) << file;
  }
}

TEST(Store, HasWhatWasPutBeforeTheProcessWasKilled) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Store store(directory / "caisson.db");
    store.put_session(sample("a"));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Store store(directory / "caisson.db");
  EXPECT_FALSE(store.opened().recovered);
  EXPECT_THAT(store.sessions(), ElementsAre(sample("a")));
}

TEST(DamagedStore, IsSetAsideWhenItIsNoDatabase) {
  const TemporaryDirectory directory;
  const std::string garbage(5000, 'g');
  replace_file(directory / "caisson.db", garbage);
  Store store(directory / "caisson.db");
  EXPECT_TRUE(store.opened().recovered);
  EXPECT_THAT(store.opened().report, HasSubstr("caisson.db is damaged: file is not a database"));
  EXPECT_THAT(store.opened().report, HasSubstr("0 sessions were read from it"));
  const auto aside = files_with(directory, ".corrupt-");
  ASSERT_EQ(aside.size(), 1u);
  EXPECT_THAT(store.opened().report, HasSubstr(aside.front().native()));
  EXPECT_EQ(read_file(aside.front()), garbage);
  store.put_session(sample("a"));
  EXPECT_THAT(ids(store), ElementsAre("a"));
}

TEST(DamagedStore, IsReportedWhenTheFileIsEmpty) {
  const TemporaryDirectory directory;
  fill(directory / "caisson.db", 3);
  std::filesystem::resize_file(directory / "caisson.db", 0);
  const Store store(directory / "caisson.db");
  EXPECT_TRUE(store.opened().recovered);
  EXPECT_THAT(store.sessions(), IsEmpty());
  EXPECT_EQ(files_with(directory, ".corrupt-").size(), 1u);
}

TEST(DamagedStore, LosesOnlyTheRowWithAFlippedBit) {
  const TemporaryDirectory directory;
  fill(directory / "caisson.db", 5);
  std::string content = read_file(directory / "caisson.db");
  const std::size_t place = content.find("value of session-3");
  ASSERT_NE(place, std::string::npos);
  overwrite(directory / "caisson.db", static_cast<off_t>(place), "w");
  Store store(directory / "caisson.db");
  EXPECT_TRUE(store.opened().recovered);
  EXPECT_THAT(store.opened().report, HasSubstr("does not match its checksum"));
  EXPECT_THAT(store.opened().report, HasSubstr("4 sessions were read from it, 1 lost"));
  EXPECT_THAT(ids(store), ElementsAre("session-0", "session-1", "session-2", "session-4"));
  EXPECT_EQ(store.find_meta("color"), "green");
  EXPECT_EQ(files_with(directory, ".corrupt-").size(), 1u);
}

TEST(DamagedStore, SurvivesEverySingleFlippedByteInAnyPage) {
  const TemporaryDirectory directory;
  fill(directory / "original.db", 12);
  const std::string original = read_file(directory / "original.db");
  int recovered = 0;
  for (std::size_t place = 0; place < original.size(); place += 401) {
    if (place >= 60 && place < 64) continue;  // the version: another number may be a newer one
    const TemporaryDirectory own;
    std::string content = original;
    content[place] = static_cast<char>(content[place] ^ 0x10);
    replace_file(own / "caisson.db", content);
    Store store(own / "caisson.db");
    if (store.opened().recovered) ++recovered;
    for (const SessionRecord& record : store.sessions()) {
      SessionRecord expected = sample(record.session_id);
      expected.settings.image = std::string(400, 'p');
      ASSERT_EQ(record, expected) << place;
    }
    if (!store.opened().recovered) {
      ASSERT_EQ(store.sessions().size(), 12u) << place;
    }
    store.put_session(sample("new"));
  }
  EXPECT_GT(recovered, 10);
}

TEST(DamagedStore, KeepsWhatIsLeftOfATruncatedFile) {
  const TemporaryDirectory directory;
  fill(directory / "caisson.db", 60);
  const auto size = std::filesystem::file_size(directory / "caisson.db");
  std::filesystem::resize_file(directory / "caisson.db", size - 8292);
  Store store(directory / "caisson.db");
  EXPECT_TRUE(store.opened().recovered);
  EXPECT_GT(store.sessions().size(), 10u) << store.opened().report;
  EXPECT_LT(store.sessions().size(), 60u);
  EXPECT_THAT(store.opened().report, HasSubstr("what else it held cannot be read"));
  const std::vector<SessionRecord> kept = store.sessions();
  store.put_session(sample("new"));
  EXPECT_EQ(store.sessions().size(), kept.size() + 1);
}

TEST(DamagedStore, TakesTheLogOfADamagedFileAside) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // killed, so that the rows are in the log only
    fill(directory / "caisson.db", 3);
    Store store(directory / "caisson.db");
    store.put_session(sample("in the log"));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const std::string log = read_file(directory / "caisson.db-wal");
  ASSERT_NE(log.find("in the log"), std::string::npos);
  overwrite(directory / "caisson.db", 0, std::string(16, 'x'));
  const Store store(directory / "caisson.db");
  EXPECT_TRUE(store.opened().recovered);
  EXPECT_EQ(files_with(directory, ".corrupt-").size(), 2u) << "the file and its log";
}

}  // namespace
}  // namespace caisson::store
