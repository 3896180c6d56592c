#include "base/text.h"

#include <gtest/gtest.h>

namespace caisson {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST(Trim, RemovesWhiteSpaceAtBothEndsOnly) {
  EXPECT_EQ(trim(" \t\na b\r\f\v "), "a b");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(ToLower, ChangesAsciiLettersOnly) {
  EXPECT_EQ(to_lower("AbZ@[\xC3\x84"), "abz@[\xC3\x84");
}

TEST(Split, KeepsEmptyPieces) {
  EXPECT_EQ(split("a,,b,", ','), (std::vector<std::string_view>{"a", "", "b", ""}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
}

TEST(Join, IsTheOppositeOfSplit) {
  EXPECT_EQ(join({"a", "", "b", ""}, ","), "a,,b,");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({}, ","), "");
}

TEST(CountOf, CountsACharacterInTextsOfAnySize) {
  EXPECT_EQ(count_of('x', ""), 0u);
  for (const std::size_t size : {1u, 239u, 240u, 241u, 480u, 100'000u}) {
    EXPECT_EQ(count_of('x', std::string(size, 'x')), size);
    EXPECT_EQ(count_of('y', std::string(size, 'x')), 0u);
    EXPECT_EQ(count_of('y', std::string(size, 'x') + "y"), 1u);
  }
}

TEST(ParseInteger, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("9223372036854775807"), 9223372036854775807ll);
  for (const char* wrong : {"", " 1", "1 ", "1x", "+1", "0x1", "1.0", "9223372036854775808", "-"}) {
    EXPECT_EQ(parse_integer(wrong), std::nullopt) << wrong;
  }
}

TEST(Printable, EscapesEveryControlCharacter) {
  EXPECT_EQ(printable("a\nb\x1b[0m\x7f"), "a\\nb\\x1b[0m\\x7f");
  EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\x9b31m")
      << "C1 controls move terminals too";
  EXPECT_EQ(printable("\xC2\xA0\xC3\xA9"), "\xC2\xA0\xC3\xA9");
}

TEST(Printable, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable("abc\xC3\xA9", 4), "abc...");
}

TEST(Printable, MakesInvalidTextValid) {
  EXPECT_EQ(printable("a\xFF"), "a" + kBad);
}

}  // namespace
}  // namespace caisson
