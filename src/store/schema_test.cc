#include "store/schema.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/str.h"
#include "store/scene_for_test.h"
#include "store/store.h"

namespace caisson::store {
namespace {

using testing::HasSubstr;

const Schema kOld = {"CREATE TABLE things (name TEXT)"};
const Schema kNew = {"CREATE TABLE things (name TEXT)",
                     "ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 7",
                     "CREATE TABLE more (name TEXT)"};

TEST(OpenDatabase, BringsAnOlderFileUpToDateAndKeepsACopy) {
  const TemporaryDirectory directory;
  create_database(directory / "a.db", kOld, [](const Database& database) {
    database.run("INSERT INTO things VALUES ('one')");
  });
  std::string report;
  {
    const Database database = open_database(directory / "a.db", kNew, report);
    EXPECT_EQ(database.number("SELECT size FROM things WHERE name = 'one'"), 7);
    EXPECT_EQ(database.number("SELECT count(*) FROM more"), 0);
    EXPECT_EQ(database.number("PRAGMA user_version"), 3);
  }
  const std::string backup = (directory / "a.db.backup-v1");
  EXPECT_EQ(report, str((directory / "a.db"),
                        ": brought from version 1 to 3; the old one is kept as ", backup));
  std::string silent;
  const Database old = open_database(backup, kOld, silent);
  EXPECT_EQ(old.number("SELECT count(*) FROM things"), 1);
  EXPECT_EQ(silent, "");
  EXPECT_EQ(std::filesystem::status(backup).permissions(), std::filesystem::perms(0600));
}

TEST(OpenDatabase, LeavesAnOlderFileAsItIsWhenAStepFails) {
  const TemporaryDirectory directory;
  create_database(directory / "a.db", kOld);
  Schema broken = kNew;
  broken.back() = "CREATE TABLE things (name TEXT)";
  std::string report;
  EXPECT_THROW(open_database(directory / "a.db", broken, report), Error);
  EXPECT_EQ(report, "");
  const Database database = open_database(directory / "a.db", kOld, report);
  EXPECT_EQ(database.number("SELECT count(*) FROM pragma_table_info('things')"), 1);
}

TEST(OpenDatabase, RefusesANewerFileAndDoesNotTouchIt) {
  const TemporaryDirectory directory;
  create_database(directory / "caisson.db", kNew);
  const std::string before = read_file(directory / "caisson.db");
  for (int i = 0; i < 2; ++i) {
    try {
      const Store store(directory / "caisson.db");
      FAIL() << "was opened";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("caisson.db has version 3, and this program knows up to "
                                          "2: a newer caisson wrote it"));
    }
  }
  EXPECT_EQ(read_file(directory / "caisson.db"), before);
}

TEST(OpenDatabase, RefusesANewerFileThatWasNotClosedAndDoesNotTouchIt) {
  const TemporaryDirectory directory;
  create_database(directory / "caisson.db", kNew);
  std::string report;
  const Database writer = open_database(directory / "caisson.db", kNew, report);
  writer.run("INSERT INTO more VALUES ('x')");
  const std::string log = read_file(directory / "caisson.db-wal");
  EXPECT_THROW(Store(directory / "caisson.db"), Error);
  EXPECT_EQ(read_file(directory / "caisson.db-wal"), log);
}

TEST(CreateDatabase, LeavesNothingWhenFillingFails) {
  const TemporaryDirectory directory;
  const auto fail = [](const Database&) { throw Error(ErrorCode::internal_error, "x"); };
  EXPECT_THROW(create_database(directory / "a.db", kOld, fail), Error);
  EXPECT_FALSE(std::filesystem::exists(directory / "a.db"));
  create_database(directory / "a.db", kOld);  // over what the failed one left
  EXPECT_FALSE(std::filesystem::exists(directory / "a.db.new"));
}

}  // namespace
}  // namespace caisson::store
