#include "model/limits.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

struct Range {
  const char* name;
  std::int64_t fallback;
  std::int64_t least;
  std::int64_t most;
};
constexpr Range kRanges[] = {
    {"max_sessions", 64, 0, 5000},
    {"max_managed_processes", 64, 0, 1024},
    {"max_completed_processes", 256, 0, 10'000},
    {"max_admission_records", 100'000, 1, 250'000},
    {"max_rpc_file_bytes", 20'971'520, 1, 104'857'600},
    {"completed_process_retention_sec", 300, 0, 86'400},
};

std::string refusal(const char* name, const boost::json::value& value) {
  const boost::json::value section = {{name, value}};
  return refusal_of([&] { read_limits(section); });
}

TEST(ReadLimits, FillsInTheDefaults) {
  const boost::json::object object = to_json(read_limits(parse_json(R"({"other": "x"})")));
  EXPECT_EQ(object.size(), std::size(kRanges));
  for (const Range& range : kRanges) EXPECT_EQ(object.at(range.name), range.fallback) << range.name;
}

TEST(ReadLimits, TakesTheWholeRangeAndNothingBeyond) {
  for (const Range& range : kRanges) {
    const std::string sentence =
        str("box.limits.", range.name, " must be between ", range.least, " and ", range.most);
    for (const std::int64_t edge : {range.least, range.most}) {
      EXPECT_EQ(to_json(read_limits({{range.name, edge}})).at(range.name), edge);
    }
    EXPECT_EQ(refusal(range.name, range.least - 1), sentence);
    EXPECT_EQ(refusal(range.name, range.most + 1), sentence);
    EXPECT_EQ(refusal(range.name, std::uint64_t(-1)), sentence);
  }
}

TEST(ReadLimits, CoercesNothing) {
  for (const char* text : {"true", "1.0", R"("1")", "null", "[]"}) {
    EXPECT_EQ(refusal("max_sessions", parse_json(text)),
              "box.limits.max_sessions must be an integer")
        << text;
  }
  EXPECT_EQ(refusal_of([] { read_limits(parse_json("[]")); }), "box.limits must be an object");
}

TEST(ReadLimits, KeepsTheCurrentValueOfAbsentFields) {
  const Limits current{.max_sessions = 3, .max_rpc_file_bytes = 9};
  const Limits limits = read_limits(parse_json(R"({"max_sessions": 4})"), current);
  EXPECT_EQ(limits, (Limits{.max_sessions = 4, .max_rpc_file_bytes = 9}));
}

}  // namespace
}  // namespace caisson::model
