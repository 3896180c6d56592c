#include "skill/name.h"

#include <gtest/gtest.h>

#include "model/refusal_for_test.h"

namespace caisson::skill {
namespace {

std::string refusal(const std::string& name) {
  return model::refusal_of([&] { check_name(name); });
}

TEST(CheckName, TakesLettersAndDigitsOfAnyScript) {
  EXPECT_EQ(check_name("  my-skill_1 "), "my-skill_1");
  EXPECT_EQ(check_name("网页抓取-v2"), "网页抓取-v2");
  EXPECT_EQ(check_name("Überprüfung"), "Überprüfung");
  const std::string longest(64, 'a');
  EXPECT_EQ(check_name(longest), longest);
}

TEST(CheckName, SaysWhatIsWrong) {
  const std::string letters =
      "Skill name can only contain letters, numbers, hyphens and underscores";
  for (const char* blank : {"", "  ", "\t\n"}) EXPECT_EQ(refusal(blank), "Skill name is required");
  for (const char* wrong : {"a b", "a/b", "..", ".", "a.b", "---", "_", "a\xFF", "a\nb", "😀"}) {
    EXPECT_EQ(refusal(wrong), letters) << wrong;
  }
  EXPECT_EQ(refusal(std::string("a\0b", 3)), letters);
  const std::string length = "Skill name cannot exceed 64 characters";
  EXPECT_EQ(refusal(std::string(65, 'a')), length);
  std::string four_bytes;
  for (int i = 0; i < 64; ++i) four_bytes += "\U00020000";
  EXPECT_EQ(refusal(four_bytes), length) << "no directory can have that name";
}

TEST(TargetStem, MakesADirectoryNameOfAFileName) {
  const std::pair<std::string, std::string> rows[] = {
      {"My Demo.zip", "My-Demo"},
      {"a/b/c.zip", "c"},
      {"skill.tar.gz", "skill-tar"},
      {".zip", "zip"},
      {"", "uploaded-skill"},
      {"...", "uploaded-skill"},
      {"--x__.zip", "x"},
      {"技能 1.zip", "技能-1"},
      {"a\xFF.zip", "a"},
      {"..\\..\\x.zip", "x"},
  };
  for (const auto& [name, stem] : rows) EXPECT_EQ(target_stem(name), stem) << name;
  EXPECT_EQ(target_suffix("upload"), "upload");
  EXPECT_EQ(target_suffix("../../etc"), "etc");
  EXPECT_EQ(target_suffix(""), "");
}

}  // namespace
}  // namespace caisson::skill
