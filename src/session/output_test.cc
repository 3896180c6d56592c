#include "session/output.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::session {
namespace {

TEST(ShownOutput, IsTextWithoutWhiteSpaceAtItsEnds) {
  EXPECT_EQ(shown_output(" \n a b \n", 0, 100), "a b");
  EXPECT_EQ(shown_output("", 0, 100), "");
  EXPECT_EQ(shown_output("a\xff"
                         "b",
                         0, 100),
            "a\xEF\xBF\xBD"
            "b");
}

TEST(ShownOutput, SaysExactlyWhatWasDiscarded) {
  EXPECT_EQ(shown_output("abc", 17, 3),
            "abc\n... [raw output clipped at 3 bytes, 17 bytes discarded]");
}

TEST(ShownOutput, LeavesOutACharacterThatTheLimitCut) {
  const std::string euro = "\xE2\x82\xAC";
  EXPECT_EQ(shown_output("a" + euro.substr(0, 2), 1, 3),
            "a\n... [raw output clipped at 3 bytes, 1 bytes discarded]");
  EXPECT_EQ(shown_output("a" + euro.substr(0, 2), 0, 100), "a\xEF\xBF\xBD") << "it ended so";
}

TEST(TextStream, NeverSplitsACharacter) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    TextStream stream;
    std::string shown = stream.add(text.substr(0, cut));
    shown += stream.add(text.substr(cut));
    shown += stream.finish();
    EXPECT_EQ(shown, text) << cut;
  }
}

TEST(TextStream, ShowsWhatIsBrokenAsBroken) {
  TextStream stream;
  EXPECT_EQ(stream.add("a\xE2\x82"), "a");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace caisson::session
