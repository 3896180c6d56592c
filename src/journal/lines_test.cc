#include "journal/lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace caisson::journal {
namespace {

std::vector<std::string> texts(LineReader& reader) {
  std::vector<std::string> lines;
  while (auto line = reader.next()) lines.push_back(line->text.value());
  return lines;
}

TEST(LineReader, GivesCompleteLinesWithoutTheirNewline) {
  LineReader reader;
  reader.push("one\ntwo\r\n\nthr");
  EXPECT_EQ(texts(reader), (std::vector<std::string>{"one", "two\r", ""}));
  reader.push("ee\n");
  EXPECT_EQ(texts(reader), std::vector<std::string>{"three"});
  EXPECT_FALSE(reader.finish().has_value());
}

TEST(LineReader, TellsWhereEachLineIs) {
  LineReader reader(100);
  reader.push("ab\n");
  const auto first = reader.next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->offset, 100u);
  EXPECT_EQ(first->size, 2u);
  EXPECT_EQ(first->next, 103u);
  reader.push("c");
  EXPECT_FALSE(reader.next().has_value());
  const auto last = reader.finish();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->text, "c");
  EXPECT_EQ(last->offset, 103u);
  EXPECT_EQ(last->next, 104u);
  EXPECT_FALSE(reader.finish().has_value());
}

TEST(LineReader, CutsOffALineThatIsTooLongAndGoesOn) {
  for (const std::size_t piece : {1u, 3u, 1000u}) {
    LineReader reader(0, 8);
    const std::string input = "12345678\n123456789\nnext\n" + std::string(50, 'x') + "\nlast";
    std::vector<Line> lines;
    for (std::size_t at = 0; at < input.size(); at += piece) {
      reader.push(std::string_view(input).substr(at, piece));
      while (auto line = reader.next()) lines.push_back(*line);
    }
    if (auto line = reader.finish()) lines.push_back(*line);
    ASSERT_EQ(lines.size(), 5u);
    EXPECT_EQ(lines[0].text, "12345678");
    EXPECT_FALSE(lines[0].cut_off);
    EXPECT_TRUE(lines[1].cut_off);
    EXPECT_EQ(lines[1].text, "12345678");
    EXPECT_EQ(lines[1].offset, 9u);
    EXPECT_EQ(lines[2].text, "next");
    EXPECT_EQ(lines[2].offset, 19u);
    EXPECT_TRUE(lines[3].cut_off);
    EXPECT_EQ(lines[3].text, "xxxxxxxx");
    EXPECT_EQ(lines[4].text, "last");
    EXPECT_EQ(lines[4].next, input.size());
  }
}

TEST(LineReader, IsInTheMidstOfALineThatItCutsOff) {
  LineReader reader(100, 8);
  reader.push("123456789\nnext\n");
  const auto cut_off = reader.next();
  ASSERT_TRUE(cut_off.has_value());
  EXPECT_TRUE(cut_off->cut_off);
  // The newline is to come: who goes on here passes over the rest of the line, however short it is.
  EXPECT_EQ(cut_off->next, 109u);
  EXPECT_EQ(reader.offset(), 109u);
  EXPECT_TRUE(reader.passes_over());
  LineReader next_one(cut_off->next, 8);
  next_one.skip_to(cut_off->next);
  next_one.push("\nnext\n");
  EXPECT_EQ(texts(next_one), std::vector<std::string>{"next"});
  EXPECT_EQ(texts(reader), std::vector<std::string>{"next"});
  EXPECT_FALSE(reader.passes_over());
  EXPECT_EQ(reader.offset(), 115u);
}

TEST(LineReader, KeepsNothingOfALineThatNobodyGets) {
  LineReader reader(0, 8);
  for (int i = 0; i < 100; ++i) {
    reader.push("1234567");
    EXPECT_EQ(reader.next().has_value(), i == 1);
    if (i > 0) EXPECT_EQ(reader.offset(), 7u * static_cast<unsigned>(i + 1));
    if (i > 0) EXPECT_EQ(reader.pending(), 0u);
  }
  EXPECT_FALSE(reader.finish().has_value());
}

TEST(LineReader, PassesOverTheRestOfALineWhoseBeginningIsLost) {
  LineReader reader;
  reader.push("lost beg");
  EXPECT_TRUE(texts(reader).empty());
  reader.skip_to(1000);
  reader.push("inning\nwhole\npart");
  const auto line = reader.next();
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->text, "whole");
  EXPECT_EQ(line->offset, 1007u);
  EXPECT_FALSE(reader.next().has_value());
  EXPECT_EQ(reader.finish()->text, "part");
}

TEST(LineReader, GivesTheSameLinesInHoweverManyPieces) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::string input;
    std::vector<std::string> expected;
    for (int i = 0; i < 40; ++i) {
      expected.emplace_back(random() % 200, static_cast<char>('a' + random() % 26));
      input += expected.back() + "\n";
    }
    LineReader reader;
    std::vector<std::string> lines;
    std::uint64_t next = 0;
    for (std::size_t at = 0; at < input.size();) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % 300, input.size() - at);
      reader.push(std::string_view(input).substr(at, piece));
      at += piece;
      while (auto line = reader.next()) {
        EXPECT_EQ(line->offset, next);
        EXPECT_EQ(input.substr(line->offset, line->size), line->text);
        next = line->next;
        lines.push_back(line->text.value());
      }
    }
    EXPECT_EQ(lines, expected);
    EXPECT_EQ(next, input.size());
  }
}

TEST(LineReader, TellsWhereALongLineIsInsteadOfKeepingIt) {
  for (const std::uint64_t size : {kLongestLine, kLongestLine + 1}) {
    LineReader reader(1000);
    reader.push("short\n");
    EXPECT_EQ(texts(reader), std::vector<std::string>{"short"});
    const std::string piece(4096, 'x');
    std::optional<Line> line;
    for (std::uint64_t left = size; left > 0; left -= std::min<std::uint64_t>(left, piece.size())) {
      ASSERT_FALSE(line.has_value());
      reader.push(std::string_view(piece).substr(0, left));
      line = reader.next();
      ASSERT_LT(reader.held(), 3 * LineReader::kInMemory);
    }
    if (!line) EXPECT_EQ(reader.pending(), size);
    EXPECT_EQ(line.has_value(), size > kLongestLine);
    reader.push("\nnext\n");
    if (!line) line = reader.next();
    ASSERT_TRUE(line.has_value());
    EXPECT_EQ(line->offset, 1006u);
    EXPECT_EQ(line->size, kLongestLine);
    EXPECT_EQ(line->cut_off, size > kLongestLine);
    EXPECT_EQ(line->text, std::nullopt);
    EXPECT_EQ(texts(reader), std::vector<std::string>{"next"});
    EXPECT_EQ(reader.offset(), 1006 + size + 6);
  }
}

TEST(LineReader, TellsWhereALongLineIsAtTheEndOfTheStream) {
  LineReader reader;
  reader.push(std::string(LineReader::kInMemory, 'x'));
  EXPECT_FALSE(reader.next().has_value());
  reader.push("yz");
  EXPECT_FALSE(reader.next().has_value());
  reader.push("!");
  EXPECT_FALSE(reader.next().has_value());
  const auto line = reader.finish();
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->text, std::nullopt);
  EXPECT_EQ(line->size, LineReader::kInMemory + 3);
  EXPECT_EQ(line->next, LineReader::kInMemory + 3);
}

}  // namespace
}  // namespace caisson::journal
