#include "cli/process_options.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <chrono>

#include "base/error.h"

namespace caisson::cli {
namespace {

using namespace std::chrono_literals;

const Environment kNoVariables = [](const std::string&) { return std::nullopt; };
const model::Timestamp kNow = std::chrono::sys_days(std::chrono::year(2026) / 1 / 31) + 12h;

std::string fault_of(const ProcessOptions& options) {
  try {
    plan_process(options, {"true"}, kNoVariables);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ProcessOptions, TellTheDaemonOnlyWhatWasGiven) {
  EXPECT_EQ(boost::json::serialize(plan_process({}, {"echo", "a b", ""}, kNoVariables)),
            R"({"command":"echo","args":["a b",""],"env":{}})");
}

TEST(ProcessOptions, TellTheDaemonAllThatWasGiven) {
  ProcessOptions options{.id = "web", .env = {"A=b=c"}, .workdir = "/tmp", .memory = "1G"};
  options.restart = "on-failure";
  options.journal = "2M";
  options.hold = options.tty = true;
  EXPECT_EQ(boost::json::serialize(plan_process(options, {"sh"}, kNoVariables)),
            R"({"process_id":"web","command":"sh","args":[],"env":{"A":"b=c"},"cwd":"/tmp",)"
            R"("memory_mb":1024,"restart":"on-failure","journal_bytes":2097152,)"
            R"("overflow":"hold","tty":true})");
}

TEST(ProcessOptions, AreNamedWhenTheyAreWrong) {
  EXPECT_TRUE(fault_of({.restart = "sometimes"}).starts_with("--restart: "));
  EXPECT_TRUE(fault_of({.journal = "1K"}).starts_with("--journal: journal_bytes"));
  EXPECT_TRUE(fault_of({.journal = "much"}).starts_with("--journal: \"much\" is not a size"));
  EXPECT_TRUE(fault_of({.memory = "much"}).starts_with("--memory: "));
  EXPECT_TRUE(fault_of({.workdir = "relative"}).starts_with("--workdir: "));
  EXPECT_TRUE(fault_of({.env = {"=x"}}).starts_with("--env: "));
  EXPECT_TRUE(fault_of({.env = {"A=\xff"}}).find("must be UTF-8") != std::string::npos);
}

TEST(ProcessOptions, GiveSizesInBytes) {
  EXPECT_EQ(parse_bytes("--x", "4096"), 4096);
  EXPECT_EQ(parse_bytes("--x", "512k"), 512 << 10);
  EXPECT_EQ(parse_bytes("--x", "16M"), 16 << 20);
  EXPECT_EQ(parse_bytes("--x", "1G"), 1 << 30);
  for (const char* text : {"", "M", "-1", "1.5M", "1T", "99999999999G"}) {
    EXPECT_THROW(parse_bytes("--x", text), Error) << text;
  }
}

TEST(ProcessOptions, SinceIsAnOffsetAnAgeOrATime) {
  EXPECT_EQ(parse_since("0", kNow), (Since{.offset = 0, .time = {}}));
  EXPECT_EQ(parse_since("4096", kNow), (Since{.offset = 4096, .time = {}}));
  EXPECT_EQ(parse_since("10m", kNow), (Since{.offset = {}, .time = kNow - 10min}));
  EXPECT_EQ(parse_since("2d", kNow), (Since{.offset = {}, .time = kNow - 48h}));
  EXPECT_EQ(parse_since("2026-01-31T11:00:00Z", kNow), (Since{.offset = {}, .time = kNow - 1h}));
  EXPECT_EQ(parse_since("2026-01-31T12:00:00+02:00", kNow),
            (Since{.offset = {}, .time = kNow - 2h}));
  for (const char* text : {"", "-1", "m", "-1m", "yesterday", "2026-01-31T12:00:00"}) {
    EXPECT_THROW(parse_since(text, kNow), Error) << text;
  }
}

}  // namespace
}  // namespace caisson::cli
