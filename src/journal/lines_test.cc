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
  while (auto line = reader.next()) lines.push_back(line->text);
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
  EXPECT_EQ(first->length, 2u);
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

TEST(LineReader, ReportsAnOversizedLineAndGoesOn) {
  for (const std::size_t piece : {1u, 3u, 1000u}) {
    LineReader reader(0, 8);
    const std::string input = "12345678\n123456789\nnext\n" + std::string(50, 'x');
    std::vector<Line> lines;
    for (std::size_t at = 0; at < input.size(); at += piece) {
      reader.push(std::string_view(input).substr(at, piece));
      while (auto line = reader.next()) lines.push_back(*line);
    }
    if (auto line = reader.finish()) lines.push_back(*line);
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_EQ(lines[0].text, "12345678");
    EXPECT_TRUE(lines[1].oversized);
    EXPECT_EQ(lines[1].text, "");
    EXPECT_EQ(lines[1].offset, 9u);
    EXPECT_EQ(lines[1].length, 9u);
    EXPECT_EQ(lines[2].text, "next");
    EXPECT_EQ(lines[2].offset, 19u);
    EXPECT_TRUE(lines[3].oversized);
    EXPECT_EQ(lines[3].length, 50u);
    EXPECT_EQ(lines[3].next, input.size());
  }
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
        EXPECT_EQ(input.substr(line->offset, line->length), line->text);
        next = line->next;
        lines.push_back(line->text);
      }
    }
    EXPECT_EQ(lines, expected);
    EXPECT_EQ(next, input.size());
  }
}

TEST(LineReader, TakesALongLineInManyPieces) {
  LineReader reader;
  const std::string piece(16, 'x');
  for (std::size_t size = 0; size < LineReader::kMaxLine; size += piece.size()) {
    reader.push(piece);
    ASSERT_FALSE(reader.next().has_value());
  }
  reader.push("\n");
  const auto line = reader.next();
  ASSERT_TRUE(line.has_value());
  EXPECT_FALSE(line->oversized);
  EXPECT_EQ(line->text.size(), LineReader::kMaxLine);
}

}  // namespace
}  // namespace caisson::journal
