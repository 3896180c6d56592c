#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <tuple>

#include "base/temporary_directory.h"
#include "journal/stream_for_test.h"

namespace caisson::journal {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSize = 5 * kBlockSize + 100;

class JournalDamage : public testing::Test {
 protected:
  JournalDamage() {
    auto [read, write] = make_pipe();
    const auto journal = Journal::create(directory_.path(), "out", limits_);
    for (std::uint64_t at = 0; at < kSize;) {
      const std::size_t piece = std::min<std::uint64_t>(60'000, kSize - at);
      write_all(write.get(), stream_bytes(at, piece), "pipe");
      drain_all(*journal, read.get());
      at += piece;
    }
    journal->index();
    journal->set_mark(Journal::kDelivered, 777);
    journal->mark_closed();
  }

  void change(const std::string& name, std::size_t offset,
              const std::function<char(char)>& changed) {
    std::fstream file(directory_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char before = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(changed(before));
    ASSERT_TRUE(file.good());
  }
  void flip(const std::string& name, std::size_t offset) {
    change(name, offset, [](char byte) { return static_cast<char>(byte ^ 0x10); });
  }

  Journal::Opened open() { return Journal::open(directory_.path(), "out", limits_); }

  // It was set aside as it was, and a new one goes on at `end`.
  void expect_set_aside(std::uint64_t end) {
    const Journal::Opened opened = open();
    ASSERT_TRUE(opened.damage.has_value());
    EXPECT_NE(opened.damage->reason, "");
    EXPECT_EQ(opened.journal->begin(), end);
    EXPECT_EQ(opened.journal->end(), end);
    EXPECT_TRUE(fs::exists(directory_ / "out.damaged-1") ||
                fs::exists(directory_ / "out.damaged-1.index"));
    EXPECT_FALSE(open().damage.has_value());
  }

  const Limits limits_{.capacity = 1u << 20};
  TemporaryDirectory directory_;
};

TEST_F(JournalDamage, IsNotSeenWhereThereIsNone) {
  const Journal::Opened opened = open();
  EXPECT_FALSE(opened.damage.has_value());
  EXPECT_EQ(opened.journal->end(), kSize);
}

TEST_F(JournalDamage, OfOneBitInARecordedBlockIsFound) {
  flip("out", 3 * kBlockSize + 17);
  const Journal::Opened opened = open();
  ASSERT_TRUE(opened.damage.has_value());
  EXPECT_NE(opened.damage->reason.find("offset 196608"), std::string::npos)
      << opened.damage->reason;
  EXPECT_EQ(opened.damage->data_kept_as, directory_ / "out.damaged-1");
  EXPECT_EQ(fs::file_size(opened.damage->data_kept_as), kSize);
  EXPECT_TRUE(fs::exists(opened.damage->index_kept_as));
  EXPECT_EQ(opened.journal->begin(), kSize);
  EXPECT_EQ(opened.journal->end(), kSize);
  EXPECT_EQ(opened.journal->limits(), limits_);
  EXPECT_EQ(opened.journal->mark(Journal::kDelivered), 777u);
  EXPECT_TRUE(opened.journal->closed());
}

TEST_F(JournalDamage, LeavesAJournalThatGoesOn) {
  flip("out", 17);
  auto [read, write] = make_pipe();
  {
    const Journal::Opened opened = open();
    ASSERT_TRUE(opened.damage.has_value());
    for (std::uint64_t at = kSize; at < 40 * kBlockSize; at += 60'000) {
      write_all(write.get(), stream_bytes(at, 60'000), "pipe");
      drain_all(*opened.journal, read.get());
      ASSERT_TRUE(holds_stream(*opened.journal));
    }
  }
  const Journal::Opened again = open();
  EXPECT_FALSE(again.damage.has_value());
  EXPECT_TRUE(holds_stream(*again.journal));
  EXPECT_GT(again.journal->begin(), kSize);
}

TEST_F(JournalDamage, IsNumberedWhenItHappensAgain) {
  for (int number = 1; number <= 3; ++number) {
    fs::resize_file(directory_ / "out.index", 0);
    const Journal::Opened opened = open();
    ASSERT_TRUE(opened.damage.has_value());
    EXPECT_EQ(opened.damage->data_kept_as, directory_ / ("out.damaged-" + std::to_string(number)));
  }
}

TEST_F(JournalDamage, OfAFileThatWasCutIsFound) {
  fs::resize_file(directory_ / "out", 2 * kBlockSize + 1);
  expect_set_aside(kSize);  // the index knows how far the stream went
}

TEST_F(JournalDamage, OfAMissingFileIsFound) {
  fs::remove(directory_ / "out");
  expect_set_aside(kSize);
}

TEST_F(JournalDamage, OfATailThatWasCutIsFound) {
  fs::resize_file(directory_ / "out", kSize - 50);
  expect_set_aside(kSize);
}

TEST_F(JournalDamage, OfOneBitInTheTailIsFound) {
  flip("out", 5 * kBlockSize + 17);
  expect_set_aside(kSize);
}

TEST_F(JournalDamage, OfBothFilesGoesOnBehindWhatWasReserved) {
  fs::remove(directory_ / "out");
  fs::remove(directory_ / "out.index");
  const Journal::Opened opened = Journal::open(directory_.path(), "out", limits_, 64u << 20);
  ASSERT_TRUE(opened.damage.has_value());
  EXPECT_EQ(opened.journal->begin(), 64u << 20);
  EXPECT_EQ(opened.journal->end(), 64u << 20);
}

TEST_F(JournalDamage, OfAFileThatIsADirectoryIsFound) {
  fs::remove(directory_ / "out");
  fs::create_directory(directory_ / "out");
  expect_set_aside(kSize);
}

TEST_F(JournalDamage, OfAMarkBehindTheEndIsMended) {
  {
    const Journal::Opened opened = open();
    opened.journal->set_mark(Journal::kDelivered, kSize + 1);
  }
  EXPECT_EQ(open().journal->mark(Journal::kDelivered), kSize);
}

TEST_F(JournalDamage, OfAMissingIndexIsFound) {
  fs::remove(directory_ / "out.index");
  expect_set_aside(kSize);
}

TEST_F(JournalDamage, OfAnEmptyIndexIsFound) {
  fs::resize_file(directory_ / "out.index", 0);
  expect_set_aside(kSize);
}

TEST_F(JournalDamage, OfAnIndexThatWasCutIsFound) {
  fs::resize_file(directory_ / "out.index", 200);
  expect_set_aside(kSize);
}

TEST_F(JournalDamage, OfAnIndexThatIsGarbageIsFound) {
  replace_file(directory_ / "out.index", stream_bytes(99, 4096));
  expect_set_aside(kSize);
}

TEST_F(JournalDamage, OfAnInterruptedCreationIsNone) {
  Journal::remove(directory_.path(), "out");
  replace_file(directory_ / "out", "");
  const Journal::Opened opened = open();
  EXPECT_FALSE(opened.damage.has_value());
  EXPECT_EQ(opened.journal->end(), 0u);
}

// The index would lose the first of them while it records the rest, and be refused the next time.
TEST_F(JournalDamage, OfAFileWithMoreThanItsIndexHasRoomForIsFound) {
  constexpr std::uint64_t kTooLong = kLongestLine + 40 * kBlockSize;
  fs::resize_file(directory_ / "out", kTooLong);
  expect_set_aside(kTooLong);
}

// Somebody changes the files of a journal that is open.
class OpenJournalDamage : public JournalDamage {
 protected:
  OpenJournalDamage() : opened_(JournalDamage::open()) { std::tie(read_, write_) = make_pipe(); }

  Journal& journal() { return *opened_.journal; }

  void take_more(std::size_t size) {
    const std::uint64_t end = journal().end();
    for (std::size_t done = 0; done < size;) {
      const std::size_t piece = std::min<std::size_t>(50'000, size - done);
      write_all(write_.get(), stream_bytes(end + done, piece), "pipe");
      drain_all(journal(), read_.get());
      journal().index();
      done += piece;
    }
    EXPECT_EQ(journal().end(), end + size);
  }

  // Reads from `offset` to the end: what it gets is the stream, and this is what it is told is
  // gone.
  std::uint64_t missing_from(std::uint64_t offset) {
    std::uint64_t missing = 0;
    std::string bytes(100'000, '\0');
    while (offset < journal().end()) {
      const ReadResult read = journal().read(offset, bytes);
      if (read.truncated) {
        EXPECT_GT(read.begin, offset);
        missing += read.begin - offset;
        offset = read.begin;
        continue;
      }
      EXPECT_TRUE(read.bytes > 0 && is_stream({bytes.data(), read.bytes}, offset));
      if (read.bytes == 0) break;
      offset += read.bytes;
    }
    return missing;
  }

  Journal::Opened opened_;
  UniqueFd read_;
  UniqueFd write_;
};

TEST_F(OpenJournalDamage, OfABlockIsAGapOfThatBlock) {
  flip("out", 2 * kBlockSize + 99);
  EXPECT_EQ(missing_from(0), kBlockSize);
  EXPECT_EQ(missing_from(2 * kBlockSize + 5), kBlockSize - 5);
  take_more(3 * kBlockSize);
  EXPECT_EQ(missing_from(0), kBlockSize);
}

TEST_F(OpenJournalDamage, OfTheTailIsAGapUpToTheEndOfThen) {
  flip("out", 5 * kBlockSize + 17);
  EXPECT_EQ(missing_from(0), 100u);
  take_more(10);
  EXPECT_EQ(missing_from(kSize), 0u);
  take_more(2 * kBlockSize);
  EXPECT_EQ(missing_from(kSize), 0u);
  EXPECT_FALSE(JournalDamage::open().damage.has_value());
}

TEST_F(OpenJournalDamage, OfAFileThatIsCutNeverGivesZeros) {
  fs::resize_file(directory_ / "out", kBlockSize + 5);
  EXPECT_EQ(missing_from(kBlockSize), kSize - kBlockSize);
  take_more(kBlockSize / 2);
  EXPECT_EQ(missing_from(0), kSize);
  EXPECT_EQ(missing_from(kSize), 0u);
  take_more(3 * kBlockSize);
  EXPECT_EQ(missing_from(kSize), 0u);
  EXPECT_FALSE(JournalDamage::open().damage.has_value());
}

TEST_F(OpenJournalDamage, IsNoGapForWhoeverIsAtTheEndAlready) {
  flip("out", 5 * kBlockSize + 17);
  std::string bytes;
  const ReadResult read = journal().read(kSize, bytes);
  EXPECT_FALSE(read.truncated) << "it would be one of nothing, again and again";
  EXPECT_EQ(read.bytes, 0u);
  take_more(10);
  EXPECT_EQ(missing_from(kSize), 0u) << "what comes is not taken for a part of it";
}

TEST_F(OpenJournalDamage, OfAFileThatGrewRemovesWhatIsNotOurs) {
  fs::resize_file(directory_ / "out", kSize + 7000);
  take_more(10);
  EXPECT_EQ(missing_from(0), 0u);
  EXPECT_EQ(fs::file_size(directory_ / "out"), kSize + 10);
}

TEST_F(OpenJournalDamage, OfAnIndexThatIsOverwrittenChangesNothing) {
  const std::string garbage = stream_bytes(99, fs::file_size(directory_ / "out.index"));
  const UniqueFd index = open_file(directory_ / "out.index", O_WRONLY);
  write_all(index.get(), garbage, "index");
  EXPECT_EQ(journal().begin(), 0u);
  EXPECT_EQ(journal().mark(Journal::kDelivered), 777u);
  take_more(3u << 20);
  EXPECT_EQ(missing_from(journal().begin()), 0u);
  const Journal::Opened again = JournalDamage::open();
  EXPECT_TRUE(again.damage.has_value());
  EXPECT_EQ(again.journal->end(), journal().end());
}

TEST_F(OpenJournalDamage, OfAnIndexThatIsCutEndsNobody) {
  fs::resize_file(directory_ / "out.index", 0);
  take_more(3u << 20);
  EXPECT_EQ(missing_from(journal().begin()), 0u);
}

// Whatever byte of the index is another: it is found, or it is one that says nothing wrong.
TEST_F(JournalDamage, OfAnyByteOfTheIndexIsFoundOrHarmless) {
  const std::string sound = read_file(directory_ / "out.index");
  for (std::size_t offset = 0; offset < sound.size(); ++offset) {
    std::string damaged = sound;
    damaged[offset] = static_cast<char>(damaged[offset] ^ 0x41);
    std::vector<std::uint64_t> memory((damaged.size() + 7) / 8);
    std::memcpy(memory.data(), damaged.data(), damaged.size());
    const auto bytes = std::as_writable_bytes(std::span(memory)).first(damaged.size());
    if (BlockIndex::problem(bytes, kSize)) continue;
    const BlockIndex index(bytes);
    EXPECT_LE(index.begin(), kSize);
    EXPECT_LE(index.blocks(), kSize / kBlockSize);
    for (std::uint64_t number = index.begin() / kBlockSize; number < index.blocks(); ++number) {
      EXPECT_TRUE(index.find(number).has_value());
    }
  }
}

}  // namespace
}  // namespace caisson::journal
