#include "base/utf8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace caisson {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

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

TEST(RepairUtf8, KeepsTextWhereItIsAndMendsTheRest) {
  std::string text(100, 'x');
  const char* const place = text.data();
  text = repair_utf8(std::move(text));
  EXPECT_EQ(text.data(), place);
  EXPECT_EQ(repair_utf8(text + "\xE2\x82"), text + kBad);
}

struct TextRow {
  std::string text;
  std::size_t wrong_at;  // npos: it is well formed
};

TEST(Utf8Validator, FindsTheFirstWrongByteHoweverTheTextIsCut) {
  constexpr auto kNever = std::string::npos;
  const std::vector<TextRow> rows = {
      {"", kNever},
      {"plain text that is longer than a word", kNever},
      {"k\u00f6sme \u20ac \U0001F600", kNever},
      {"\xED\x9F\xBF \xEE\x80\x80 \xF4\x8F\xBF\xBF", kNever},
      {"\x80", 0},
      {"12345678\xFF", 8},
      {"\xC0\x80", 0},
      {"\xC1\xBF", 0},
      {"\xE0\x9F\xBF", 1},
      {"\xED\xA0\x80", 1},
      {"\xF0\x8F\xBF\xBF", 1},
      {"\xF4\x90\x80\x80", 1},
      {"\xF5\x80\x80\x80", 0},
      {"\xE2\x82z", 2},
      {"\xC3(", 1},
  };
  for (const TextRow& row : rows) {
    Utf8Validator whole;
    EXPECT_EQ(whole.feed(row.text), row.wrong_at == kNever) << row.text;
    EXPECT_TRUE(row.wrong_at != kNever || whole.complete());
    EXPECT_EQ(is_utf8(row.text), row.wrong_at == kNever) << row.text;
    Utf8Validator bytewise;
    for (std::size_t i = 0; i < std::min(row.wrong_at, row.text.size()); ++i) {
      EXPECT_TRUE(bytewise.feed(row.text.substr(i, 1))) << row.text << " at " << i;
    }
    if (row.wrong_at != kNever) {
      EXPECT_FALSE(bytewise.feed(row.text.substr(row.wrong_at, 1))) << row.text;
    }
  }
  // What is looked at in larger pieces, and where one ends.
  for (std::size_t before = 0; before < 300; ++before) {
    const std::string plain(before, 'x');
    EXPECT_TRUE(Utf8Validator().feed(plain + "\u20ac" + plain)) << before;
    EXPECT_FALSE(Utf8Validator().feed(plain + "\xFF" + plain)) << before;
  }
  Utf8Validator half;
  EXPECT_TRUE(half.feed("\xE2\x82"));
  EXPECT_FALSE(half.complete());
  EXPECT_TRUE(half.feed("\xAC\u20ac"));
  EXPECT_TRUE(half.complete());
  EXPECT_FALSE(is_utf8("\xE2\x82"));
}

}  // namespace
}  // namespace caisson
