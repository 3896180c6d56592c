#include "model/managed_process.h"

#include <gmock/gmock.h>

#include "model/box_settings.h"
#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

ManagedProcessSpec read(const char* text) {
  return read_managed_process_spec(parse_json(text));
}
std::string refusal(const char* text) {
  return refusal_of([&] { read(text); });
}

TEST(ManagedProcessSpec, RefusesAnIdThatIsNotUtf8) {
  EXPECT_EQ(
      refusal_of([] {
        read_managed_process_spec(boost::json::object{{"command", "x"}, {"process_id", "\xc3"}});
      }),
      "process_id must be UTF-8: \"\xEF\xBF\xBD\"");
}

TEST(ReadManagedProcessSpec, FillsInTheDefaults) {
  const ManagedProcessSpec spec = read(R"({"command": " python ", "unknown": 1})");
  EXPECT_EQ(spec, ManagedProcessSpec{.command = "python"});
  EXPECT_EQ(spec.process_id, "default");
  EXPECT_EQ(spec.cwd, "/workspace");
  EXPECT_EQ(spec.memory_mb, 0);
}

TEST(ReadManagedProcessSpec, ReadsEveryField) {
  const ManagedProcessSpec spec = read(
      R"({"process_id": "", "command": "uv", "args": ["run", " x "], "env": {"B": "1", "A": ""},
               "cwd": " /code/./a ", "memory_mb": "64"})");
  EXPECT_EQ(spec, (ManagedProcessSpec{.process_id = "",
                                      .command = "uv",
                                      .args = {"run", " x "},
                                      .env = {{"A", ""}, {"B", "1"}},
                                      .cwd = "/code/a",
                                      .memory_mb = 64}));
  EXPECT_EQ(read_managed_process_spec(to_json(spec)), spec);
}

TEST(ReadManagedProcessSpec, HoldsTheOutputOfThoseWhoSayNothingWhereThatIsTheCustom) {
  const auto overflow_of = [](const char* text) {
    return read_managed_process_spec(parse_json(text), {}, OutputPolicy::hold).overflow;
  };
  EXPECT_EQ(overflow_of(R"({"command": "a"})"), OutputPolicy::hold);
  EXPECT_EQ(overflow_of(R"({"command": "a", "overflow": "release"})"), OutputPolicy::release);
  EXPECT_EQ(read(R"({"command": "a"})").overflow, OutputPolicy::release);
}

TEST(ReadManagedProcessSpec, LetsAProcessInheritTheSessionsMemory) {
  EXPECT_EQ(read(R"({"command": "a", "memory_mb": -5})").memory_mb, -5);
  EXPECT_EQ(read(R"({"command": "a", "memory_mb": 1e30})").memory_mb, kMaxMegabytes);
}

TEST(ReadManagedProcessSpec, RefusesWithTheSentencesThatClientsMatch) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"command": "  "})", "command must not be empty"},
      {R"({"command": "a", "cwd": "x"})", "cwd must be an absolute path inside the sandbox"},
      {R"({})", "command: is required"},
      {R"({"command": 1})", "command: must be a string"},
      {R"({"command": "a", "args": ["b", 1]})", "args[1]: must be a string"},
      {R"({"command": "a", "args": "b"})", "args: must be a list"},
      {R"({"command": "a", "env": {"A": 1}})", "env.A: must be a string"},
      {R"({"command": "a", "env": {"A=": ""}})",
       R"(env: the name "A=" must not be empty or contain '=')"},
      {R"({"command": "a", "process_id": null})", "process_id: must be a string"},
      {R"({"command": "a", "memory_mb": null})", "memory_mb: must be an integer"},
      {R"({"command": "a\u0000b"})", "command: must not contain a NUL character"},
  };
  for (const auto& [text, sentence] : rows) EXPECT_EQ(refusal(text), sentence) << text;
  const auto value = parse_json(R"({"command": 1})");
  EXPECT_EQ(refusal_of([&] { read_managed_process_spec(value, "spec"); }),
            "spec.command: must be a string");
}

TEST(ManagedProcessInfo, ShowsNamesOfTheEnvironmentButNoValues) {
  const ManagedProcessInfo info = managed_process_info_of(
      ManagedProcessSpec{.command = "uv", .args = {"x"}, .env = {{"TOKEN", "secret"}, {"A", "1"}}});
  EXPECT_THAT(info.env_keys, ElementsAre("A", "TOKEN"));
  EXPECT_EQ(boost::json::value(to_json(info)),
            parse_json(R"({"session_id": "", "process_id": "default", "status": "running",
    "command": "uv", "args": ["x"], "cwd": "/workspace", "env_keys": ["A", "TOKEN"],
    "attached": false, "started_at": "1970-01-01T00:00:00Z", "exited_at": null, "exit_code": null,
    "stderr_preview": ""})"));
}

TEST(ManagedProcessInfo, SurvivesJson) {
  const ManagedProcessInfo info{.session_id = "s",
                                .process_id = "p",
                                .status = ProcessStatus::exited,
                                .command = "uv",
                                .args = {"x"},
                                .cwd = "/w",
                                .env_keys = {"A"},
                                .attached = true,
                                .started_at = Timestamp(1s),
                                .exited_at = Timestamp(2s),
                                .exit_code = 3,
                                .stderr_preview = "oops"};
  EXPECT_EQ(read_managed_process_info(to_json(info)), info);
}

TEST(ManagedProcessInfo, NeedsOnlyWhatClientsRequire) {
  const auto value = parse_json(R"({"session_id": "s", "status": "running", "command": "a",
    "args": [], "cwd": "/", "env_keys": [], "started_at": "2026-01-01T00:00:00Z"})");
  EXPECT_EQ(read_managed_process_info(value).process_id, "default");
}

}  // namespace
}  // namespace caisson::model
