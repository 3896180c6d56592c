#include "quota/record.h"

#include <gtest/gtest.h>

#include "quota/project.h"
#include "quota/scene_for_test.h"

namespace caisson::quota {
namespace {

Record sample(const std::string& directory = "/srv/tenants/a b") {
  Record record{.driver = "loop",
                .phase = Phase::emptying,
                .limit = {.bytes = 1ull << 40, .inodes = 1000},
                .project = 4'000'000'000};
  record.directory = directory;
  return record;
}

TEST(QuotaRecord, SurvivesBeingWritten) {
  for (const Phase phase : {Phase::preparing, Phase::emptying, Phase::live, Phase::returning}) {
    Record record = sample();
    record.phase = phase;
    EXPECT_EQ(parse_record(to_text(record)), record);
  }
}

TEST(QuotaRecord, IsNotReadWhenItIsNotWhole) {
  const std::string text = to_text(sample());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(parse_record(text.substr(0, length)), std::nullopt) << length;
  }
  EXPECT_EQ(parse_record(text + "x"), std::nullopt);
}

TEST(QuotaRecord, IsNotReadWithAPhaseOrANumberThatIsNone) {
  for (const auto& [from, to] : {std::pair{"emptying", "sleeping"},
                                 {"4000000000", "5000000000"},
                                 {"bytes 1", "bytes -1"},
                                 {"quota 1", "quota 2"}}) {
    std::string text = to_text(sample());
    text.replace(text.find(from), std::string(from).size(), to);
    EXPECT_EQ(parse_record(text), std::nullopt) << text;
  }
}

TEST(QuotaLedger, GivesBackWhatWasPutAndForgetsWhatWasRemoved) {
  const TemporaryDirectory root;
  Ledger ledger(root / "quota", "loop");
  EXPECT_EQ(ledger.find("/srv/tenants/a b"), std::nullopt);
  EXPECT_TRUE(ledger.ids().empty());
  ledger.put(sample());
  EXPECT_EQ(ledger.get("/srv/tenants/a b"), sample());
  EXPECT_EQ(code_of([&] { ledger.get("/srv/tenants/b"); }), ErrorCode::not_found);
  std::vector<std::string> problems;
  EXPECT_EQ(ledger.list(problems), std::vector{sample()});
  ledger.remove("/srv/tenants/a b");
  EXPECT_TRUE(ledger.list(problems).empty());
  EXPECT_TRUE(problems.empty());
}

TEST(QuotaLedger, RemovesWhatWasNotWrittenToItsEnd) {
  const TemporaryDirectory root;
  Ledger ledger(root.path(), "loop");
  ledger.put(sample());
  const std::string id = record_id(sample().directory);
  write_text(root / str(id, ".record.Ab3dEf"), "caisson");
  write_text(root / str(id, ".img"), "");
  ledger.sweep();
  EXPECT_EQ(contents(root.path()).size(), 2u);
  EXPECT_EQ(ledger.get(sample().directory), sample());
}

TEST(QuotaLedger, KeepsDriversApart) {
  const TemporaryDirectory root;
  Ledger(root / "quota", "loop").put(sample());
  const Ledger other(root / "quota", "btrfs");
  EXPECT_EQ(code_of([&] { other.find("/srv/tenants/a b"); }), ErrorCode::validation_error);
  std::vector<std::string> problems;
  EXPECT_TRUE(other.list(problems).empty());
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(other.ids().size(), 1u);
}

TEST(QuotaDirectory, IsTheSameByWhateverPath) {
  const TemporaryDirectory root;
  std::filesystem::create_directory(root / "real");
  std::filesystem::create_symlink("real", root / "link");
  const std::filesystem::path expected = root / "real/new/a";
  EXPECT_EQ(resolve_directory(root / "link/new/a"), expected);
  EXPECT_FALSE(std::filesystem::exists(root / "real/new"));
  EXPECT_EQ(settle_directory(root / "link/new/a/"), expected);
  EXPECT_EQ(settle_directory(root / "real/./x/../new/a"), expected);
  for (const char* bad : {"", "relative/a", "/", "/srv/..", "/srv/.", "/srv/a\nb"}) {
    EXPECT_EQ(code_of([&] { settle_directory(bad); }), ErrorCode::validation_error) << bad;
  }
}

TEST(ProjectQuota, BeginsFarFromTheNumbersOfAdministrators) {
  for (const char* path : {"/a", "/b", "/srv/tenants/a"}) {
    EXPECT_GE(first_project(path), 0x40000000u);
    EXPECT_LT(first_project(path), 0x80000000u);
  }
  EXPECT_NE(first_project("/a"), first_project("/b"));
}

}  // namespace
}  // namespace caisson::quota
