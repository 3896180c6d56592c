#include "base/unicode.h"

#include <gtest/gtest.h>

namespace caisson {
namespace {

TEST(ToUtf32, GivesCharactersAndMarksWhatIsNone) {
  EXPECT_EQ(to_utf32("a\u00e9\u20ac\U0001F600"), U"a\u00e9\u20ac\U0001F600");
  EXPECT_EQ(to_utf32("a\xFFz"), U"a\uFFFDz");
  EXPECT_EQ(to_utf32(""), U"");
}

TEST(AppendUtf8, IsTheOppositeOfToUtf32) {
  const std::string text = "a\x7F\u0080\u07FF\u0800\uFFFD\U00010000\U0010FFFF";
  std::string again;
  for (const char32_t character : to_utf32(text)) append_utf8(again, character);
  EXPECT_EQ(again, text);
}

TEST(IsAlphanumeric, KnowsLettersAndDigitsOfEveryScript) {
  for (const char32_t character : U"azAZ09\u00e9\u00df\u0416\u4e2d\u65e5\uac00\u0661\U00020000") {
    if (character != 0) EXPECT_TRUE(is_alphanumeric(character)) << std::hex << +character;
  }
  for (const char32_t character : U" -_./\\:\u00a0\u3000\u2028\u2014\u3002\U0001F600\uFFFD\x01") {
    if (character != 0) EXPECT_FALSE(is_alphanumeric(character)) << std::hex << +character;
  }
  EXPECT_FALSE(is_alphanumeric(0));
}

TEST(ToLower, ChangesOneCharacterIntoOne) {
  EXPECT_EQ(to_lower(U'A'), U'a');
  EXPECT_EQ(to_lower(U'@'), U'@');
  EXPECT_EQ(to_lower(U'\u00C4'), U'\u00E4');
  EXPECT_EQ(to_lower(U'\u4e2d'), U'\u4e2d');
}

}  // namespace
}  // namespace caisson
