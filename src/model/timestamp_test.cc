#include "model/timestamp.h"

#include <gtest/gtest.h>

#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

using namespace std::chrono_literals;
namespace chr = std::chrono;

constexpr Timestamp kMoment =
    chr::sys_days(chr::year(2026) / 11 / 15) + 18h + 45min + 33s + 175222us;

TEST(TimestampText, ShowsMicrosecondsUnlessTheyAreZero) {
  EXPECT_EQ(timestamp_text(kMoment), "2026-11-15T18:45:33.175222Z");
  EXPECT_EQ(timestamp_text(kMoment, UtcMark::offset), "2026-11-15T18:45:33.175222+00:00");
  EXPECT_EQ(timestamp_text(chr::floor<chr::seconds>(kMoment)), "2026-11-15T18:45:33Z");
  EXPECT_EQ(timestamp_text(Timestamp(42us)), "1970-01-01T00:00:00.000042Z");
  EXPECT_EQ(timestamp_text(Timestamp(-1us)), "1969-12-31T23:59:59.999999Z");
}

TEST(ParseTimestamp, ReadsIsoTextAndEpochNumbers) {
  const auto whole = chr::floor<chr::seconds>(kMoment);
  const std::pair<const char*, Timestamp> rows[] = {
      {R"("2026-11-15T18:45:33.175222Z")", kMoment},
      {R"("2026-11-15 18:45:33.175222+00:00")", kMoment},
      {R"("2026-11-15t18:45:33.1752229z")", kMoment},
      {R"("2026-11-15T20:45:33+02:00")", whole},
      {R"("2026-11-15T13:15:33-0530")", whole},
      {R"("2026-11-15T20:45:33+02")", whole},
      {R"("2026-11-15T18:45Z")", whole - 33s},
      {"1794768333", whole},
      {"1794768333000", whole},
      {"1794768333.5", whole + 500ms},
      {R"("1794768333")", whole},
      {R"("1794768333000")", whole},
      {R"("-1")", Timestamp(-1s)},
  };
  for (const auto& [text, expected] : rows) {
    const auto parsed = parse_timestamp(parse_json(text));
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_EQ(timestamp_text(parsed->time), timestamp_text(expected)) << text;
    EXPECT_TRUE(parsed->has_zone) << text;
  }
}

TEST(ParseTimestamp, SaysWhenTheZoneIsMissing) {
  for (const char* text : {"2026-11-15T18:45:33", "2026-11-15 18:45", "2026-11-15"}) {
    const auto parsed = parse_timestamp(std::string_view(text));
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_FALSE(parsed->has_zone) << text;
  }
}

TEST(ParseTimestamp, RefusesWhatIsNoMoment) {
  for (const char* text :
       {R"("")", R"("soon")", "null", "true", "[]", R"("2026-02-30T00:00:00Z")",
        R"("2026-11-15T24:00:00Z")", R"("2026-11-15T18:60:00Z")", R"("2026-11-15T18:45:33.Z")",
        R"("2026-11-15T18:45:33Zx")", R"("2026-11-15T18:45:33+2")", R"("2026-11-15x18:45Z")",
        "1e300", R"("-")", R"("1.2.3")", R"("99999999999999999999999")"}) {
    EXPECT_EQ(parse_timestamp(parse_json(text)).has_value(), false) << text;
  }
}

TEST(ParseTimestamp, ReadsBackWhatIsShown) {
  EXPECT_EQ(parse_timestamp(std::string_view(timestamp_text(kMoment)))->time, kMoment);
}

}  // namespace
}  // namespace caisson::model
