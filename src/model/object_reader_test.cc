#include "model/object_reader.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(ToInteger, TakesWhatLangBotTakes) {
  const std::pair<const char*, std::int64_t> rows[] = {
      {"999", 999},
      {"-3", -3},
      {"999.0", 999},
      {"true", 1},
      {"false", 0},
      {R"("999")", 999},
      {R"(" 999 ")", 999},
      {R"("+5")", 5},
      {R"("-5")", -5},
      {R"("1_000")", 1000},
      {R"("9.0")", 9},
      {R"("999.0")", 999},
      {R"("007")", 7},
      {"9223372036854775807", kMost},
      {"9223372036854775808", kMost},
      {"18446744073709551616", kMost},
      {"1000000000000000000000000000000", kMost},
      {"-1000000000000000000000000000000", kLeast},
      {R"("1000000000000000000000000000000")", kMost},
      {R"("-1000000000000000000000000000000")", kLeast},
  };
  for (const auto& [text, expected] : rows)
    EXPECT_EQ(to_integer(parse_json(text)), expected) << text;
}

TEST(ToInteger, RefusesWhatLangBotRefuses) {
  for (const char* text :
       {"999.5",   R"("9.5")", R"("99.5")", R"("1e3")", R"("0x10")",        R"("")",     R"(" ")",
        "null",    "[]",       "{}",        R"("abc")", "\"\uFF19\uFF19\"", R"("1__0")", R"("_1")",
        R"("1_")", R"("+-5")", R"("- 5")",  R"(".0")",  R"("1 0")",         R"("inf")"}) {
    EXPECT_EQ(to_integer(parse_json(text)), std::nullopt) << text;
  }
  EXPECT_EQ(to_integer(std::nan("")), std::nullopt);
  EXPECT_EQ(to_integer(std::numeric_limits<double>::infinity()), std::nullopt);
}

TEST(ToNumber, TakesWhatLangBotTakes) {
  const std::pair<const char*, double> rows[] = {
      {"2", 2},
      {"0.5", 0.5},
      {"true", 1},
      {"false", 0},
      {R"("1e3")", 1e3},
      {R"(" 2 ")", 2},
      {R"("1_0")", 10},
      {R"("+2.5")", 2.5},
      {R"("-1")", -1},
      {R"(".5")", 0.5},
      {"1e30", 1e30},
      {"18446744073709551615", 0x1p64},
      {R"("inf")", std::numeric_limits<double>::infinity()},
      {R"("-Infinity")", -std::numeric_limits<double>::infinity()},
  };
  for (const auto& [text, expected] : rows)
    EXPECT_EQ(to_number(parse_json(text)), expected) << text;
  EXPECT_TRUE(std::isnan(to_number(parse_json(R"("nan")")).value()));
}

TEST(ToNumber, RefusesWhatLangBotRefuses) {
  for (const char* text : {"null", "[]", "{}", R"("")", R"("abc")", R"("1,5")", R"("0x10")",
                           "\"nan(1)\"", R"("--1")", R"("1_")", R"("_1")", R"("1 2")"}) {
    EXPECT_EQ(to_number(parse_json(text)), std::nullopt) << text;
  }
}

TEST(ToBool, TakesWhatLangBotTakes) {
  for (const char* text :
       {"true", "1", "1.0", R"("true")", R"("T")", R"("Yes")", R"("y")", R"("ON")", R"("1")"}) {
    EXPECT_EQ(to_bool(parse_json(text)), true) << text;
  }
  for (const char* text :
       {"false", "0", "0.0", R"("False")", R"("f")", R"("no")", R"("N")", R"("off")", R"("0")"}) {
    EXPECT_EQ(to_bool(parse_json(text)), false) << text;
  }
}

TEST(ToBool, RefusesWhatLangBotRefuses) {
  for (const char* text :
       {"2", "-1", "0.5", "null", "[]", R"("")", R"(" true ")", R"("maybe")", R"("1.0")"}) {
    EXPECT_EQ(to_bool(parse_json(text)), std::nullopt) << text;
  }
}

TEST(ObjectReader, NamesThePathOfAWrongField) {
  const auto value = parse_json(R"({"i": "x", "n": "x", "b": 2, "s": 1, "l": {}, "m": []})");
  ObjectReader reader(value, "box.limits");
  const auto refusal = [&]<typename T>(T, const char* name) {
    return refusal_of([&] { reader.required<T>(name); });
  };
  EXPECT_EQ(refusal(std::int64_t(), "i"), "box.limits.i: must be an integer");
  EXPECT_EQ(refusal(double(), "n"), "box.limits.n: must be a number");
  EXPECT_EQ(refusal(bool(), "b"), "box.limits.b: must be true or false");
  EXPECT_EQ(refusal(std::string(), "s"), "box.limits.s: must be a string");
  EXPECT_EQ(refusal(ObjectReader::Strings(), "l"), "box.limits.l: must be a list");
  EXPECT_EQ(refusal(ObjectReader::StringMap(), "m"), "box.limits.m: must be an object");
  EXPECT_EQ(refusal(bool(), "gone"), "box.limits.gone: is required");
}

TEST(ObjectReader, NamesFieldsOfTheRootWithoutAPrefix) {
  const auto value = parse_json(R"({"cpus": []})");
  ObjectReader reader(value, "");
  EXPECT_EQ(refusal_of([&] { reader.required<double>("cpus"); }), "cpus: must be a number");
}

TEST(ObjectReader, RefusesWhatIsNoObject) {
  const auto value = parse_json("[1]");
  EXPECT_EQ(refusal_of([&] { ObjectReader(value, "box"); }), "box: must be an object");
  EXPECT_EQ(refusal_of([&] { ObjectReader(value, ""); }), "must be an object");
}

TEST(ObjectReader, TellsAbsentFromNull) {
  const auto value = parse_json(R"({"none": null, "five": 5})");
  ObjectReader reader(value, "");
  EXPECT_EQ(reader.optional<std::int64_t>("gone", 7), 7);
  EXPECT_EQ(reader.optional<std::int64_t>("five", 7), 5);
  EXPECT_EQ(refusal_of([&] { reader.optional<std::int64_t>("none", 7); }),
            "none: must be an integer");
  EXPECT_EQ(reader.nullable<std::int64_t>("none"), std::nullopt);
  EXPECT_EQ(reader.nullable<std::int64_t>("gone"), std::nullopt);
  EXPECT_EQ(reader.nullable<std::int64_t>("five"), 5);
}

TEST(ObjectReader, CoercesNothingWhenStrict) {
  for (const char* text : {"true", "1.0", R"("1")", "null", "18446744073709551615"}) {
    const boost::json::value value{{"f", parse_json(text)}};
    ObjectReader reader(value, "");
    EXPECT_EQ(refusal_of([&] { reader.required<std::int64_t>("f", Coercion::strict); }),
              "f: must be an integer")
        << text;
  }
  const auto value = parse_json(R"({"yes": "yes", "two": "2", "int": 2, "flag": true})");
  ObjectReader reader(value, "");
  EXPECT_NE(refusal_of([&] { reader.required<bool>("yes", Coercion::strict); }), "");
  EXPECT_NE(refusal_of([&] { reader.required<double>("two", Coercion::strict); }), "");
  EXPECT_NE(refusal_of([&] { reader.required<double>("flag", Coercion::strict); }), "");
  EXPECT_EQ(reader.required<double>("int", Coercion::strict), 2.0);
  EXPECT_EQ(reader.required<bool>("flag", Coercion::strict), true);
}

TEST(ObjectReader, ReadsListsAndMapsOfStrings) {
  const auto value = parse_json(R"({"l": ["a", ""], "m": {"A": "1", "B": ""}, "bad": ["a", 1],
                                    "worse": {"A": 1}})");
  ObjectReader reader(value, "p");
  EXPECT_THAT(reader.required<ObjectReader::Strings>("l"), ElementsAre("a", ""));
  EXPECT_THAT(reader.required<ObjectReader::StringMap>("m"),
              ElementsAre(Pair("A", "1"), Pair("B", "")));
  EXPECT_EQ(refusal_of([&] { reader.required<ObjectReader::Strings>("bad"); }),
            "p.bad[1]: must be a string");
  EXPECT_EQ(refusal_of([&] { reader.required<ObjectReader::StringMap>("worse"); }),
            "p.worse.A: must be a string");
}

TEST(ObjectReader, RefusesNulUnlessTheTextIsRaw) {
  const auto value = parse_json(R"({"s": "a\u0000b", "m": {"A\u0000": "1"}})");
  ObjectReader reader(value, "");
  EXPECT_EQ(refusal_of([&] { reader.required<std::string>("s"); }),
            "s: must not contain a NUL character");
  EXPECT_EQ(refusal_of([&] { reader.required<ObjectReader::StringMap>("m"); }),
            "m.A\\x00: must not contain a NUL character");
  EXPECT_EQ(reader.required_raw_text("s"), std::string("a\0b", 3));
}

TEST(ObjectReader, RefusesFieldsThatNobodyReads) {
  const auto value = parse_json(R"({"cpus": 1, "cpuz": 2})");
  ObjectReader reader(value, "limits");
  reader.required<double>("cpus");
  EXPECT_THAT(reader.unknown_fields(), ElementsAre("limits.cpuz"));
  EXPECT_EQ(refusal_of([&] { reader.reject_unknown_fields(); }), "limits.cpuz: unknown field");
  reader.find("cpuz");
  reader.reject_unknown_fields();
}

TEST(ObjectReader, ReadsAnAbsentOrNullSectionAsEmpty) {
  const auto value = parse_json(R"({"none": null, "full": {"x": 1}, "flat": 3})");
  ObjectReader reader(value, "a");
  EXPECT_FALSE(reader.section("none").has("x"));
  EXPECT_FALSE(reader.section("gone").has("x"));
  EXPECT_EQ(reader.section("full").path_of("x"), "a.full.x");
  EXPECT_EQ(refusal_of([&] { reader.section("flat"); }), "a.flat: must be an object");
}

enum class Colour { red, green };
std::string_view to_string(Colour colour) {
  return colour == Colour::red ? "red" : "green";
}

TEST(ObjectReader, ReadsAChoiceByItsExactText) {
  const auto value = parse_json(R"({"a": "green", "b": "Green", "c": null})");
  ObjectReader reader(value, "");
  const auto colour = [&](const char* name) {
    return reader.choice(name, Colour::red, {Colour::red, Colour::green});
  };
  EXPECT_EQ(colour("a"), Colour::green);
  EXPECT_EQ(colour("gone"), Colour::red);
  EXPECT_EQ(refusal_of([&] { colour("b"); }), R"(b: must be one of "red", "green")");
  EXPECT_EQ(refusal_of([&] { colour("c"); }), "c: must be a string");
}

}  // namespace
}  // namespace caisson::model
