// Records of commands with a request id.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <csignal>

#include "base/file.h"
#include "base/str.h"
#include "store/scene_for_test.h"
#include "store/schema.h"
#include "store/store.h"

namespace caisson::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

model::Timestamp at(std::int64_t seconds) {
  return model::Timestamp(std::chrono::seconds(seconds));
}

ExecutionRecord running(const std::string& key, const std::string& session = "s") {
  return {.id = {session, key}, .request_hash = "hash of " + key, .created_at = at(1000)};
}

ExecutionRecord ended(const std::string& key, std::int64_t seconds, const std::string& answer) {
  ExecutionRecord record = running(key);
  record.state = ExecutionState::completed;
  record.ended_at = at(seconds);
  record.answer = answer;
  record.answer_bytes = static_cast<std::int64_t>(answer.size());
  return record;
}

ExecutionRecord without_answer(ExecutionRecord record) {
  record.answer.clear();
  return record;
}

TEST(StoredExecutions, AreThereAfterItIsOpenedAgain) {
  const TemporaryDirectory directory;
  const ExecutionRecord done = ended("done", 2000, R"({"stdout":"\u0000"})");
  {
    Store store(directory / "caisson.db");
    store.put_executions({running("at work"), running("done")});
    store.put_executions({done});
  }
  const Store store(directory / "caisson.db");
  EXPECT_THAT(store.executions(), ElementsAre(running("at work"), without_answer(done)));
  EXPECT_EQ(store.find_execution({"s", "done"}), done);
  EXPECT_EQ(store.find_execution({"s", "at work"}), running("at work"));
  EXPECT_EQ(store.find_execution({"other", "done"}), std::nullopt);
}

TEST(StoredExecutions, AreListedInTheOrderOfTheirEnds) {
  const TemporaryDirectory directory;
  Store store(directory / "caisson.db");
  store.put_executions({ended("second", 10, ""), ended("first", 30, "f")});
  store.put_executions({ended("third", 20, "t")});
  store.put_executions({ended("second", 5, "s")});  // ends after all; the clock was set back
  store.put_executions({ended("last", 1, "l")});
  std::vector<std::string> keys;
  for (const ExecutionRecord& record : store.executions()) keys.push_back(record.id.key);
  EXPECT_THAT(keys, ElementsAre("first", "third", "second", "last"));
}

TEST(StoredExecutions, GoByIdAndBySession) {
  const TemporaryDirectory directory;
  Store store(directory / "caisson.db");
  store.put_executions({running("a"), running("b"), running("c"), running("a", "t")});
  store.put_executions({running("d")}, {{"s", "a"}, {"s", "never there"}});
  store.remove_executions({{"s", "b"}});
  EXPECT_THAT(store.executions(), ElementsAre(running("c"), running("a", "t"), running("d")));
  store.remove_executions_of("s");
  EXPECT_THAT(store.executions(), ElementsAre(running("a", "t")));
}

TEST(StoredExecutions, SurviveTheirProcessBeingKilled) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Store store(directory / "caisson.db");
    store.put_executions({running("a")});
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Store store(directory / "caisson.db");
  EXPECT_THAT(store.executions(), ElementsAre(running("a")));
}

TEST(StoredExecutions, LoseOnlyTheOneWithAFlippedBit) {
  const TemporaryDirectory directory;
  {
    Store store(directory / "caisson.db");
    store.put_session(sample("kept"));
    store.put_executions({ended("a", 10, "answer of a"), ended("b", 20, "answer of b")});
  }
  const std::string content = read_file(directory / "caisson.db");
  const std::size_t place = content.find("answer of a");
  ASSERT_NE(place, std::string::npos);
  {
    const UniqueFd fd = open_file(directory / "caisson.db", O_WRONLY);
    ASSERT_EQ(::pwrite(fd.get(), "A", 1, static_cast<off_t>(place)), 1);
  }
  const Store store(directory / "caisson.db");
  EXPECT_TRUE(store.opened().recovered);
  EXPECT_THAT(store.opened().report, HasSubstr("the record of a request id does not match"));
  EXPECT_THAT(store.opened().report, HasSubstr("1 sessions were read from it, 1 request ids lost"));
  EXPECT_THAT(store.executions(), ElementsAre(without_answer(ended("b", 20, "answer of b"))));
  EXPECT_EQ(store.sessions().size(), 1u);
}

// The tables as version 1 had them.
const Schema kVersion1 = {
    "CREATE TABLE sessions (session_id TEXT PRIMARY KEY NOT NULL, spec TEXT NOT NULL,"
    " backend_name TEXT NOT NULL, backend_session_id TEXT NOT NULL, created_at INTEGER NOT NULL,"
    " last_used_at INTEGER NOT NULL, owner INTEGER NOT NULL, checksum INTEGER NOT NULL);"
    "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL,"
    " checksum INTEGER NOT NULL);"};

void make_version_1(const std::filesystem::path& file) {
  create_database(file, kVersion1, [](const Database& database) {
    rows::write(database, sample("a"));
    rows::write(database, sample("b"));
    rows::write(database, MetaRecord("k", "v"));
  });
}

TEST(StoredExecutions, FindRoomInAFileThatHadNone) {
  const TemporaryDirectory directory;
  make_version_1(directory / "caisson.db");
  Store store(directory / "caisson.db");
  EXPECT_FALSE(store.opened().recovered);
  EXPECT_THAT(store.opened().report, HasSubstr("brought from version 1 to 2"));
  EXPECT_THAT(store.sessions(), ElementsAre(sample("a"), sample("b")));
  EXPECT_EQ(store.find_meta("k"), "v");
  EXPECT_THAT(store.executions(), IsEmpty());
  store.put_executions({running("x")});
  EXPECT_THAT(store.executions(), ElementsAre(running("x")));
}

TEST(StoredExecutions, AreNotMissedInADamagedFileThatHadNone) {
  const TemporaryDirectory directory;
  make_version_1(directory / "caisson.db");
  const std::string content = read_file(directory / "caisson.db");
  const std::size_t place = content.find("value of a");
  ASSERT_NE(place, std::string::npos);
  {
    const UniqueFd fd = open_file(directory / "caisson.db", O_WRONLY);
    ASSERT_EQ(::pwrite(fd.get(), "w", 1, static_cast<off_t>(place)), 1);
  }
  const Store store(directory / "caisson.db");
  EXPECT_TRUE(store.opened().recovered);
  EXPECT_THAT(store.opened().report, HasSubstr("1 sessions were read from it, 1 lost"));
  EXPECT_THAT(store.opened().report, testing::Not(HasSubstr("cannot be read")));
  EXPECT_THAT(store.sessions(), ElementsAre(sample("b")));
}

TEST(StoredExecutions, CanBeReadAndRemovedOnAFullDisk) {
  const SmallFileSystem small("size=2m");
  if (!small.mounted()) GTEST_SKIP() << "mounting a small file system takes root privileges";
  Store store(small / "caisson.db");
  std::vector<ExecutionRecord> many;
  for (int i = 0; i < 50; ++i) many.push_back(ended(str("k", i), i, std::string(2000, 'a')));
  store.put_executions(many);
  {
    const UniqueFd filler = open_file(small / "filler", O_WRONLY | O_CREAT, 0600);
    const std::string block(4096, 'f');
    while (::write(filler.get(), block.data(), block.size()) > 0) continue;
  }
  try {
    store.put_executions({ended("large", 99, std::string(600'000, 'l'))});
    ADD_FAILURE() << "there was room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::storage_full) << error.what();
  }
  EXPECT_EQ(store.executions().size(), 50u);
  for (int i = 0; i < 25; ++i) store.remove_executions({{"s", str("k", i)}});
  EXPECT_EQ(store.executions().size(), 25u);
  store.remove_executions_of("s");
  EXPECT_THAT(store.executions(), IsEmpty());
}

}  // namespace
}  // namespace caisson::store
