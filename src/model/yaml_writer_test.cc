#include <gtest/gtest.h>

#include <boost/json/object.hpp>

#include "model/yaml.h"

namespace caisson::model {
namespace {

std::string written(const std::string& text) {
  return write_yaml({{"k", text}});
}

TEST(WriteYaml, QuotesOnlyWhatWouldBeReadAsSomethingElse) {
  const std::pair<std::string, std::string> rows[] = {
      {"a", "a"},
      {"a:b", "a:b"},
      {"a: b", "'a: b'"},
      {"a:", "'a:'"},
      {"a #b", "'a #b'"},
      {"a#b", "a#b"},
      {"- x", "'- x'"},
      {"-x", "-x"},
      {"-", "'-'"},
      {"? x", "'? x'"},
      {":x", ":x"},
      {"yes", "'yes'"},
      {"Off", "'Off'"},
      {"null", "'null'"},
      {"~", "'~'"},
      {"<<", "'<<'"},
      {"1.5", "'1.5'"},
      {"1.2.3", "1.2.3"},
      {"3d", "3d"},
      {"+5", "'+5'"},
      {"1_000", "'1_000'"},
      {"0x1F", "'0x1F'"},
      {"12:30", "'12:30'"},
      {".5", "'.5'"},
      {".", "."},
      {"1e3", "'1e3'"},
      {"08", "'08'"},
      {"2026-01-01", "'2026-01-01'"},
      {"2026-1-1", "2026-1-1"},
      {"it's", "it's"},
      {"'q'", "'''q'''"},
      {"\"q\"", "'\"q\"'"},
      {"---", "'---'"},
      {"...x", "'...x'"},
      {"a, b", "a, b"},
      {"[x]", "'[x]'"},
      {"%x", "'%x'"},
      {"@x", "'@x'"},
      {"!x", "'!x'"},
      {"|", "'|'"},
      {" lead", "' lead'"},
      {"trail ", "'trail '"},
      {"", "''"},
      {"\u00e9\u4e2d\U0001F600", "\u00e9\u4e2d\U0001F600"},
      {"a\nb", "'a\n\n  b'"},
      {"a\n\nb", "'a\n\n\n  b'"},
      {"a\n\nb\n", "\"a\\n\\nb\\n\""},
      {"\na", "\"\\na\""},
      {"a\n---\nb", "\"a\\n---\\nb\""},
      {"a \nb", "\"a \\nb\""},
      {"a\n b", "\"a\\n b\""},
      {"tab\tx\\", "\"tab\\tx\\\\\""},
      {"\U0001F600\t\u00a0", "\"\\U0001F600\\t\u00a0\""},
      {"a\r\nb\x7F", "\"a\\r\\nb\\x7F\""},
      {"\uFEFFx\u2028", "\"\\uFEFFx\\u2028\""},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(written(text), "k: " + expected + "\n");
}

TEST(WriteYaml, IsReadBackAsItWas) {
  unsigned state = 1;
  for (int round = 0; round < 3000; ++round) {
    std::string sample;
    for (unsigned length = 0; length < 1 + static_cast<unsigned>(round) % 9; ++length) {
      static const std::vector<std::string> kPieces = {
          "a", "1",      " ",      "\n",         "\t", "'",    ":",      "\"",    "#",
          "-", "?",      "[",      ",",          "{",  "~",    "\\",     "|",     ">",
          "%", "\u00e9", "\u0085", "\U0001F600", "\r", "\x1b", "\u2028", "\uFEFF"};
      state = state * 1664525u + 1013904223u;
      sample += kPieces[(state >> 16) % kPieces.size()];
    }
    const boost::json::value again = parse_yaml(written(sample), "x", PlainScalars::text);
    ASSERT_EQ(again.at("k"), boost::json::value(sample)) << written(sample);
    ASSERT_EQ(parse_yaml(written(sample), "x").at("k"), boost::json::value(sample));
  }
}

TEST(WriteYaml, KeepsTheOrder) {
  EXPECT_EQ(write_yaml({{"name", "x"}, {"display_name", "X"}, {"a", "b"}}),
            "name: x\ndisplay_name: X\na: b\n");
  EXPECT_EQ(write_yaml({}), "");
}

}  // namespace
}  // namespace caisson::model
