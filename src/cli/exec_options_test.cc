#include "cli/exec_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/value.hpp>

#include "base/error.h"

namespace caisson::cli {
namespace {

using std::chrono::milliseconds;

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

ExecPlan plan(const ExecOptions& options) {
  return plan_exec(service::Policy({}), options, "/home/me",
                   environment({{"TOKEN", "secret"}, {"EMPTY", ""}}));
}

template <typename Work>
std::string refusal(Work work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::validation_error);
    return error.what();
  }
  return "(accepted)";
}

TEST(ParseMount, TakesAHostPathABoxPathAndAMode) {
  EXPECT_EQ(parse_mount("/a:/b"), (MountText{"/a", "/b", ""}));
  EXPECT_EQ(parse_mount("/a:/b:ro"), (MountText{"/a", "/b", "ro"}));
  EXPECT_EQ(parse_mount("a/b:/b:rw"), (MountText{"a/b", "/b", "rw"}));
}

TEST(ParseMount, LeavesColonsToTheHostPath) {
  EXPECT_EQ(parse_mount("/a:b:/c"), (MountText{"/a:b", "/c", ""}));
  EXPECT_EQ(parse_mount("/a:/x:/c:ro"), (MountText{"/a:/x", "/c", "ro"}));
  EXPECT_EQ(parse_mount("/a:ro:/c"), (MountText{"/a:ro", "/c", ""}));
  EXPECT_EQ(parse_mount(R"(C:\work:/c:rw)"), (MountText{R"(C:\work)", "/c", "rw"}));
}

TEST(ParseMount, DoesNotTakeAMistypedModeForAPath) {
  EXPECT_EQ(refusal([] { parse_mount("/a:/b:readonly"); }),
            "--mount: \"/a:/b:readonly\" must be HOST:BOX, HOST:BOX:ro or HOST:BOX:rw; "
            "\"readonly\" is neither a mode nor an absolute path in the box");
}

TEST(ParseMount, RefusesWhatIsNotAPair) {
  for (const char* text : {"", "/a", ":/b", "/a:", "/a:ro", "/a:b", ":ro", ":"}) {
    EXPECT_TRUE(refusal([&] { parse_mount(text); }).starts_with("--mount: ")) << text;
  }
}

TEST(ParseWorkspace, TakesAHostPathAndAMode) {
  EXPECT_EQ(parse_workspace("."), (MountText{".", "", ""}));
  EXPECT_EQ(parse_workspace("/a:ro"), (MountText{"/a", "", "ro"}));
  EXPECT_EQ(parse_workspace("/a:b:rw"), (MountText{"/a:b", "", "rw"}));
}

TEST(ParseWorkspace, WantsAModeBehindAPathWithAColon) {
  EXPECT_EQ(refusal([] { parse_workspace("/a:readonly"); }),
            "--workspace: \"/a:readonly\" must end in :ro or :rw when it contains a colon");
  EXPECT_EQ(refusal([] { parse_workspace(""); }),
            "--workspace: \"\" must be HOST, HOST:ro or HOST:rw");
}

TEST(ParseEnv, TakesTheCallersValueForABareName) {
  const Environment caller = environment({{"TOKEN", "a=b"}});
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(parse_env("A=1", caller), Pair("A", "1"));
  EXPECT_EQ(parse_env("A=", caller), Pair("A", ""));
  EXPECT_EQ(parse_env("A=b=c", caller), Pair("A", "b=c"));
  EXPECT_EQ(parse_env("TOKEN", caller), Pair("TOKEN", "a=b"));
  EXPECT_EQ(parse_env("UNSET", caller), std::nullopt);
  EXPECT_EQ(refusal([&] { parse_env("=x", caller); }), "--env: \"=x\" must be NAME=VALUE or NAME");
}

TEST(ParseMegabytes, KnowsUnits) {
  EXPECT_EQ(parse_megabytes("512"), 512);
  EXPECT_EQ(parse_megabytes("512m"), 512);
  EXPECT_EQ(parse_megabytes("2G"), 2048);
  EXPECT_GT(parse_megabytes("9223372036854775807G"), 0);
}

TEST(ParseMegabytes, RefusesEverythingElse) {
  for (const char* text : {"", "G", "1.5", "1.5G", "512MB", "0x10", " 512", "abc"}) {
    EXPECT_TRUE(refusal([&] { parse_megabytes(text); }).starts_with("--memory: ")) << text;
  }
}

TEST(PlanExec, LeavesEverythingElseToTheDefaultProfile) {
  const ExecPlan made = plan({});
  EXPECT_EQ(made.request, (model::BoxRequest{.session_id = "exec"}));
  EXPECT_EQ(made.timeout, std::nullopt);
  EXPECT_TRUE(made.overridden.empty());
}

TEST(PlanExec, ResolvesHostPathsAgainstTheWorkingDirectory) {
  ExecOptions options;
  options.workspace = "project/../src:ro";
  options.mounts = {"data:/data", "/abs:/abs:ro"};
  const model::BoxSettings box = plan(options).request.box;
  EXPECT_EQ(box.host_path, "/home/me/src");
  EXPECT_EQ(box.host_path_mode, model::MountMode::ro);
  ASSERT_EQ(box.extra_mounts.size(), 2u);
  EXPECT_EQ(box.extra_mounts[0],
            (model::MountSpec{"/home/me/data", "/data", model::MountMode::rw}));
  EXPECT_EQ(box.extra_mounts[1], (model::MountSpec{"/abs", "/abs", model::MountMode::ro}));
}

TEST(PlanExec, TurnsOptionsIntoLimits) {
  ExecOptions options;
  options.memory = "64";
  options.cpus = "0.5";
  options.pids = "7";
  options.network = "on";
  options.writable = true;
  options.image = "alpine:3";
  options.workdir = "/tmp/../var";
  const model::BoxSettings box = plan(options).request.box;
  EXPECT_EQ(box.memory_mb, 64);
  EXPECT_EQ(box.cpus, 0.5);
  EXPECT_EQ(box.pids_limit, 7);
  EXPECT_EQ(box.network, model::NetworkMode::on);
  EXPECT_FALSE(box.read_only_rootfs);
  EXPECT_EQ(box.image, "alpine:3");
  EXPECT_EQ(plan(options).request.command.workdir, "/var");
}

TEST(PlanExec, NamesTheOptionOfAFaultTheValidationFinds) {
  const auto fault = [](auto change) {
    ExecOptions options;
    change(options);
    return refusal([&] { plan(options); });
  };
  EXPECT_EQ(fault([](ExecOptions& o) { o.memory = "8"; }),
            "--memory: memory_mb must be at least 32");
  EXPECT_EQ(fault([](ExecOptions& o) { o.cpus = "0"; }), "--cpus: cpus must be greater than 0");
  EXPECT_EQ(fault([](ExecOptions& o) { o.cpus = "nan"; }), "--cpus: \"nan\" is not a number");
  EXPECT_EQ(fault([](ExecOptions& o) { o.cpus = "1,5"; }), "--cpus: \"1,5\" is not a number");
  EXPECT_EQ(fault([](ExecOptions& o) { o.pids = "0"; }), "--pids: pids_limit must be at least 1");
  EXPECT_EQ(fault([](ExecOptions& o) { o.pids = "many"; }),
            "--pids: \"many\" is not a whole number");
  EXPECT_EQ(fault([](ExecOptions& o) { o.timeout = "0"; }),
            "--timeout: timeout_sec must be greater than 0");
  EXPECT_EQ(fault([](ExecOptions& o) { o.timeout = "-1e300"; }),
            "--timeout: timeout_sec must be greater than 0");
  EXPECT_TRUE(fault([](ExecOptions& o) { o.network = "host"; }).starts_with("--network: "));
  EXPECT_EQ(fault([](ExecOptions& o) { o.workdir = "tmp"; }),
            "--workdir: workdir must be an absolute path inside the sandbox");
  EXPECT_TRUE(fault([](ExecOptions& o) {
                o.profile = "x";
              }).starts_with("unknown box profile 'x', available profiles: default, "));
}

TEST(PlanExec, KeepsTheFractionOfATimeout) {
  ExecOptions options;
  options.timeout = "0.25";
  EXPECT_EQ(plan(options).timeout, milliseconds(250));
  options.timeout = "600.5";
  EXPECT_EQ(plan(options).timeout, milliseconds(600'500));
  options.timeout = "1e30";
  EXPECT_EQ(plan(options).timeout, std::chrono::seconds(model::kMaxTimeoutSec));
}

TEST(PlanExec, LetsAProfileLimitTheTime) {
  ExecOptions options;
  options.profile = "offline_readonly";
  EXPECT_EQ(plan(options).timeout, milliseconds(30'000));
  options.timeout = "59.5";
  EXPECT_EQ(plan(options).timeout, milliseconds(59'500));
  options.timeout = "500";
  const ExecPlan made = plan(options);
  EXPECT_EQ(made.timeout, milliseconds(60'000));
  EXPECT_EQ(made.overridden, std::vector<std::string>{"timeout_sec"});
}

TEST(PlanExec, TellsWhatALockedProfileDecided) {
  ExecOptions options;
  options.profile = "offline_readonly";
  options.network = "on";
  options.writable = true;
  const ExecPlan made = plan(options);
  EXPECT_EQ(made.request.box.network, model::NetworkMode::off);
  EXPECT_TRUE(made.request.box.read_only_rootfs);
  std::vector<std::string> overridden = made.overridden;
  std::sort(overridden.begin(), overridden.end());
  EXPECT_EQ(overridden, (std::vector<std::string>{"network", "read_only_rootfs"}));
}

TEST(PlanExec, TakesTheLastOfEachNameAndTheCallersValues) {
  ExecOptions options;
  options.env = {"HOME=/first", "HOME=/home/box", "TOKEN", "UNSET", "EMPTY"};
  EXPECT_EQ(plan(options).request.command.env,
            (std::map<std::string, std::string>{
                {"EMPTY", ""}, {"HOME", "/home/box"}, {"TOKEN", "secret"}}));
}

TEST(ShellCommand, KeepsWordsWhole) {
  EXPECT_EQ(shell_command({"echo", "a b", "it's", "", "x;y\n$(z)"}),
            "exec 'echo' 'a b' 'it'\\''s' '' 'x;y\n$(z)'");
}

TEST(ShellCommand, TellsAProgramFromAnOptionOfTheShell) {
  EXPECT_EQ(shell_command({"-a"}), "'-a'");
}

TEST(SessionRequest, SaysOnlyWhatWasGiven) {
  ExecOptions options;
  options.memory = "1G";
  options.workspace = "src:ro";
  const SessionRequest request = plan_session_exec(options, "/home/me", environment({}));
  EXPECT_EQ(boost::json::value(request.body),
            (boost::json::value{{"host_path", "/home/me/src"},
                                {"host_path_mode", "ro"},
                                {"env", boost::json::object()},
                                {"memory_mb", 1024},
                                {"timeout_sec", model::kMaxTimeoutSec}}));
}

TEST(SessionRequest, CountsWholeSeconds) {
  ExecOptions options;
  options.timeout = "1.2";
  EXPECT_EQ(plan_session_exec(options, "/", environment({})).body.at("timeout_sec"), 2);
}

TEST(SessionRequest, IsJudgedAsEveryOther) {
  ExecOptions options;
  options.cpus = "-1";
  EXPECT_THROW(plan_session_exec(options, "/", environment({})), Error);
}

TEST(SessionRequest, HasAllFieldsOfAProfile) {
  ExecOptions options;
  options.profile = "offline_readonly";
  options.network = "on";
  const SessionRequest request = plan_session_exec(options, "/", environment({}));
  EXPECT_EQ(request.body.at("network"), "off");
  EXPECT_EQ(request.body.at("memory_mb"), 256);
  EXPECT_EQ(request.overridden, std::vector<std::string>{"network"});
}

}  // namespace
}  // namespace caisson::cli
