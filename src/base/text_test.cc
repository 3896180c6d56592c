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

TEST(DecodeUtf8, LeavesValidTextAlone) {
  const std::string valid = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  EXPECT_EQ(decode_utf8(valid), valid);
  EXPECT_EQ(decode_utf8(""), "");
}

TEST(DecodeUtf8, ReplacesEachMaximalInvalidPartOnce) {
  EXPECT_EQ(decode_utf8("\xFFz"), kBad + "z");
  EXPECT_EQ(decode_utf8("\xE2\x82z"), kBad + "z") << "cut short";
  EXPECT_EQ(decode_utf8("\xF0\x9F\x98"), kBad) << "cut short at the end";
  EXPECT_EQ(decode_utf8("\xC0\xAF"), kBad + kBad) << "overlong";
  EXPECT_EQ(decode_utf8("\xE0\x80\x80"), kBad + kBad + kBad) << "overlong";
  EXPECT_EQ(decode_utf8("\xED\xA0\x80"), kBad + kBad + kBad) << "surrogate";
  EXPECT_EQ(decode_utf8("\xF4\x90\x80\x80"), kBad + kBad + kBad + kBad) << "above U+10FFFF";
  // The example of the Unicode standard, table 3-8.
  EXPECT_EQ(decode_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + kBad + kBad + kBad + "b" + kBad + "c" + kBad + kBad + "d");
}

TEST(DecodeUtf8, FindsWhatIsNotAsciiAtEveryPlace) {
  const std::string ascii = "0123456789abcdefghijklmnopqrst";
  for (std::size_t at = 0; at <= ascii.size(); ++at) {
    const std::string before = ascii.substr(0, at);
    const std::string after = ascii.substr(at);
    for (const std::string sound : {"\u00e9", "\u20ac", "\U0001F600", "\u00e9\u00e9"}) {
      EXPECT_EQ(decode_utf8(before + sound + after), before + sound + after) << at;
    }
    EXPECT_EQ(decode_utf8(before + "\xFF" + after), before + kBad + after) << at;
    EXPECT_EQ(decode_utf8(before + "\xE2\x82" + after), before + kBad + after) << at;
  }
}

TEST(IncompleteUtf8Tail, CountsBytesThatMayBecomeACharacter) {
  EXPECT_EQ(incomplete_utf8_tail(""), 0u);
  EXPECT_EQ(incomplete_utf8_tail("abc"), 0u);
  EXPECT_EQ(incomplete_utf8_tail("a\xC3"), 1u);
  EXPECT_EQ(incomplete_utf8_tail("a\xE2\x82"), 2u);
  EXPECT_EQ(incomplete_utf8_tail("a\xF0\x9F\x98"), 3u);
  EXPECT_EQ(incomplete_utf8_tail("a\xF0\x9F\x98\x80"), 0u) << "complete";
}

TEST(IncompleteUtf8Tail, DoesNotWaitForWhatCanNeverBecomeOne) {
  EXPECT_EQ(incomplete_utf8_tail("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_tail("\xFF"), 0u);
  EXPECT_EQ(incomplete_utf8_tail("\xF0\x80"), 0u) << "overlong";
  EXPECT_EQ(incomplete_utf8_tail("\xED\xA0"), 0u) << "surrogate";
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
