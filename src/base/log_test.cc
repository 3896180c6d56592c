#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace caisson::log {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

std::string text_line(const std::vector<Field>& fields) {
  return format_line(Format::text, Level::info, "event", fields);
}

// What an action writes to the log.
template <typename Action>
std::string logged(Level least, Format format, Action action) {
  auto [read_end, write_end] = make_pipe();
  configure(least, format, write_end.get());
  action();
  configure(Level::info, Format::text, STDERR_FILENO);
  write_end.reset();
  return read_all(read_end.get(), "log");
}

TEST(FormatLine, WritesPlainValuesBareAndOthersQuoted) {
  EXPECT_EQ(text_line({{"session", "a1"}, {"path", "/a b"}, {"ms", "12", true}, {"none", ""}}),
            "info event session=a1 path=\"/a b\" ms=12 none=\"\"");
}

TEST(FormatLine, KeepsAValueFromForgingAFieldOrALine) {
  EXPECT_EQ(text_line({{"name", "x admin=1"}}), "info event name=\"x admin=1\"");
  EXPECT_EQ(text_line({{"name", "x\" admin=\"1"}}), "info event name=\"x\\\" admin=\\\"1\"");
  EXPECT_EQ(text_line({{"name", "x\ninfo event"}}), "info event name=\"x\\\\ninfo event\"");
}

TEST(FormatLine, KeepsTerminalEscapesOut) {
  EXPECT_EQ(text_line({{"name", "\x1b[31mred"}}), "info event name=\"\\\\x1b[31mred\"");
  EXPECT_THAT(text_line({{"name",
                          "\xC2\x9B"
                          "31m"}}),
              Not(HasSubstr("\xC2\x9B")));
}

TEST(FormatLine, BoundsTheLengthOfAValue) {
  EXPECT_LT(text_line({{"name", std::string(100'000, 'x')}}).size(), 2100u);
}

TEST(FormatLine, WritesJsonWithNumbersBareAndTextEscaped) {
  EXPECT_EQ(format_line(Format::json, Level::error, "a \"b\"",
                        {{"ms", "12", true}, {"text", "tab\there \\ \xff"}}),
            "\"level\":\"error\",\"event\":\"a \\\"b\\\"\",\"ms\":12,"
            "\"text\":\"tab\\\\x09here \\\\ \xEF\xBF\xBD\"");
}

TEST(Write, PutsTheUtcTimeInFrontAndOneLineEach) {
  const std::string text = logged(Level::info, Format::text, [] {
    info("one", "n", 1, "name", std::string("x"));
    warning("two", "view", std::string_view("y"), "literal", "z");
  });
  EXPECT_THAT(text,
              MatchesRegex("[-0-9]+T[:0-9]+\\.[0-9][0-9][0-9]Z info one n=1 name=x\n"
                           "[-0-9]+T[:0-9]+\\.[0-9][0-9][0-9]Z warning two view=y literal=z\n"));
}

TEST(Write, WritesAWholeJsonObjectALine) {
  const std::string text = logged(Level::debug, Format::json, [] { debug("one"); });
  EXPECT_THAT(text,
              MatchesRegex("\\{\"time\":\"[^\"]+\",\"level\":\"debug\",\"event\":\"one\"\\}\n"));
}

TEST(Write, DropsEventsBelowTheLeastLevel) {
  const std::string text = logged(Level::warning, Format::text, [] {
    debug("no");
    info("no");
    error("yes");
  });
  EXPECT_THAT(text, MatchesRegex("[^\n]+ error yes\n"));
}

}  // namespace
}  // namespace caisson::log
