#include "skill/front_matter.h"

#include <gtest/gtest.h>

#include "model/refusal_for_test.h"

namespace caisson::skill {
namespace {

EntryText parse(std::string_view content) {
  return parse_entry(content, "SKILL.md");
}

TEST(ParseEntry, ReadsTheMatterBetweenTwoFences) {
  const EntryText expected{.name = "n",
                           .display_name = "N n",
                           .description = "d: e",
                           .instructions = "Body\n---\nmore\n"};
  EXPECT_EQ(parse("---\nname: n\ndisplay_name: N n\ndescription: 'd: e'\nlicense: [x]\n---\n\n\n"
                  "Body\n---\nmore\n"),
            expected);
  EXPECT_EQ(parse("---  \r\nname: n\r\ndisplay_name: N n\r\ndescription: \"d: e\"\r\n --- \r\n\r\n"
                  "Body\n---\nmore\n"),
            expected);
  EXPECT_EQ(parse("---\rname: n\r---\rx").name, "n");
}

TEST(ParseEntry, TakesScalarsAsTheyAreWritten) {
  const EntryText entry = parse("---\nname: 007\ndisplay_name: yes\ndescription: 1.10\n---\n");
  EXPECT_EQ(entry.name, "007");
  EXPECT_EQ(entry.display_name, "yes");
  EXPECT_EQ(entry.description, "1.10");
}

TEST(ParseEntry, TakesAllAsInstructionsWithoutFrontMatter) {
  for (const char* text : {"", "Just text\n", "---\nname: x\nno end", "--- x\n---\n", " ---\n---\n",
                           "----\na\n---\n", "---"}) {
    EXPECT_EQ(parse(text), EntryText{.instructions = text}) << text;
  }
}

TEST(ParseEntry, TakesMatterThatIsNoMappingOfTextsAsEmpty) {
  for (const char* matter :
       {"", "# nothing", "- a\n- b", "text", "name: [a]", "name: ~", "name: ' '"}) {
    EXPECT_EQ(parse(std::string("---\n") + matter + "\n---\nx"), EntryText{.instructions = "x"})
        << matter;
  }
}

TEST(ParseEntry, NamesTheLineOfAFault) {
  const auto refusal = [](const char* text) { return model::refusal_of([&] { parse(text); }); };
  EXPECT_TRUE(refusal("---\nname: x\ndescription: a: b\n---\n").starts_with("SKILL.md:3:"));
  EXPECT_EQ(refusal("---\nname: !x y\n---\n"), "SKILL.md:2:7: unsupported tag \"!x\"");
}

TEST(BuildEntry, WritesWhatIsReadAgain) {
  const EntryText entry{.name = "网页",
                        .display_name = "yes",
                        .description = "first: line\n---\nsecond",
                        .instructions = "# Title\n"};
  EXPECT_EQ(
      build_entry(entry),
      "---\nname: 网页\ndisplay_name: 'yes'\ndescription: \"first: line\\n---\\nsecond\"\n---\n"
      "\n# Title\n");
  EXPECT_EQ(parse(build_entry(entry)), entry);
}

TEST(BuildEntry, LeavesBlankTextsOut) {
  EXPECT_EQ(build_entry({.name = "n", .display_name = " ", .instructions = "x"}),
            "---\nname: n\n---\n\nx");
  EXPECT_EQ(build_entry({.description = "\n", .instructions = "x"}), "x");
}

}  // namespace
}  // namespace caisson::skill
