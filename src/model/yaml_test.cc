#include "model/yaml.h"

#include <gtest/gtest.h>

#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

boost::json::value parse(std::string_view text) {
  return parse_yaml(text, "c.yaml");
}
std::string refusal(std::string_view text) {
  return refusal_of([&] { parse(text); });
}

TEST(ParseYaml, ReadsScalarsByTheCoreSchema) {
  const std::pair<const char*, const char*> rows[] = {
      {"1", "1"},
      {"-7", "-7"},
      {"+7", "7"},
      {"010", "10"},
      {"0x1F", "31"},
      {"0o17", "15"},
      {"1.5", "1.5"},
      {"1e3", "1000.0"},
      {"true", "true"},
      {"False", "false"},
      {"~", "null"},
      {"null", "null"},
      {"on", R"("on")"},
      {"yes", R"("yes")"},
      {"'5'", R"("5")"},
      {"\"true\"", R"("true")"},
      {"!!str 5", R"("5")"},
      {"''", R"("")"},
      {"1_000", R"("1_000")"},
      {"1.2.3", R"("1.2.3")"},
      {"2026-01-01", R"("2026-01-01")"},
      {"nan", R"("nan")"},
      {"inf", R"("inf")"},
      {"-", "[null]"},
      {"0x", R"("0x")"},
      {"e", R"("e")"},
      {"99999999999999999999", "1e20"},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(parse(text), parse_json(expected)) << text;
}

TEST(ParseYaml, LeavesPlainScalarsAsTextWhereThatIsAskedFor) {
  EXPECT_EQ(parse_yaml("{a: 1.10, b: 007, c: yes, d: null, e: ~, f: , g: '~', h: [1]}", "c.yaml",
                       PlainScalars::text),
            parse_json(R"({"a": "1.10", "b": "007", "c": "yes", "d": null, "e": null, "f": null,
    "g": "~", "h": ["1"]})"));
}

TEST(ParseYaml, ReadsTreesAndAliases) {
  EXPECT_EQ(parse(R"(
box: &b
  local:
    allowed_mount_roots: [./data/box, /tmp]
  limits:
copy: *b
)"),
            parse_json(R"({"box": {"local": {"allowed_mount_roots": ["./data/box", "/tmp"]},
    "limits": null}, "copy": {"local": {"allowed_mount_roots": ["./data/box", "/tmp"]},
    "limits": null}})"));
  EXPECT_EQ(parse(""), nullptr);
  EXPECT_EQ(parse("# nothing\n"), nullptr);
}

TEST(ParseYaml, NamesFileLineAndColumnOfAnError) {
  EXPECT_EQ(refusal("box:\n  a: 1\n  a: 2\n"), "c.yaml:3:3: duplicate key \"a\"");
  EXPECT_EQ(refusal("box:\n  <<: {a: 1}\n"), "c.yaml:2:3: merge keys are not supported");
  EXPECT_EQ(refusal("? [a]\n: 1\n"), "c.yaml:1:3: a key must be a text");
  EXPECT_EQ(refusal("box: !secret x\n"), "c.yaml:1:6: unsupported tag \"!secret\"");
  EXPECT_TRUE(refusal("box:\n\ta: 1\n").starts_with("c.yaml:2:")) << refusal("box:\n\ta: 1\n");
  EXPECT_TRUE(refusal("a: [1\nb: 2\n").starts_with("c.yaml:2:")) << refusal("a: [1\nb: 2\n");
  EXPECT_TRUE(refusal("a: 1\n---\nb: 2\n").ends_with("only one document is allowed"));
}

TEST(ParseYaml, RefusesDocumentsThatBlowUp) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    const std::string name = "a" + std::to_string(i);
    bomb += name + ": &" + name + " [" + before;
    for (int n = 0; n < 9; ++n) bomb += ", " + before;
    bomb += "]\n";
  }
  EXPECT_TRUE(refusal(bomb).ends_with("too large once its aliases are expanded"));
  EXPECT_TRUE(refusal("a: &a [*a]\n").ends_with("nested too deeply"));
  EXPECT_NE(refusal(std::string(100'000, '[')), "");
  EXPECT_NE(refusal(std::string(100'000, '[') + std::string(100'000, ']')), "");
}

}  // namespace
}  // namespace caisson::model
