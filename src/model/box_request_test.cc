#include "model/box_request.h"

#include <gmock/gmock.h>

#include "base/str.h"
#include "model/exec.h"
#include "model/refusal_for_test.h"

namespace caisson::model {
namespace {

// A request with a session id and these fields, as JSON text without braces.
boost::json::value request(const std::string& fields) {
  const std::string separator = fields.empty() ? "" : ", ";
  return parse_json("{\"session_id\": \"s1\"" + separator + fields + "}");
}
BoxRequest read(const std::string& fields) {
  return read_box_request(request(fields));
}
std::string refusal(const std::string& fields) {
  return refusal_of([&] { read(fields); });
}

constexpr const char* kDigits = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

MountSpec read_mount(const std::string& fields) {
  return read_mount_spec(parse_json(str("{", fields, "}")), "extra_mounts[0]");
}

std::string artifact_fields(std::string_view mode, std::string_view digest) {
  return str(R"("host_path": "/srv/s", "mount_path": "/opt/langbot-artifacts/)", kDigits,
             R"(", "mode": ")", mode, R"(", "content_digest": ")", digest,
             R"(", "manifest_path": "/srv/s.json")");
}

TEST(MountSpec, IsAnArtifactAtThePathOfItsDigest) {
  const MountSpec mount = read_mount(artifact_fields("ro", str("sha256:", kDigits)));
  EXPECT_TRUE(mount.is_artifact());
  EXPECT_EQ(read_mount_spec(to_json(mount), ""), mount);
  const MountSpec elsewhere = read_mount(str(
      R"("host_path": "/srv/s", "mount_path": "/workspace/s", "mode": "ro", "manifest_path": "/m",
         "content_digest": "sha256:)",
      kDigits, "\""));
  EXPECT_FALSE(elsewhere.is_artifact());
  EXPECT_EQ(read_mount_spec(to_json(elsewhere), ""), elsewhere);
}

TEST(MountSpec, IsRefusedBelowArtifactsWhereItIsNone) {
  const std::string wrong =
      "Artifact paths require a read-only digest-addressed mount and manifest";
  const std::pair<std::string, std::string> rows[] = {
      {artifact_fields("rw", str("sha256:", kDigits)), wrong},
      {artifact_fields("none", str("sha256:", kDigits)), wrong},
      {artifact_fields("ro", str("sha256:", std::string(64, '0'))), wrong},
      {R"("host_path": "/a", "mount_path": "/opt/langbot-artifacts", "mode": "ro")", wrong},
      {R"("host_path": "/a", "mount_path": "/opt/langbot-artifacts/x", "mode": "ro")", wrong},
      {artifact_fields("ro", "md5:1"), "content_digest must use sha256:<hex>"},
      {artifact_fields("ro", "sha256:12"), "content_digest must use sha256:<64 lowercase hex>"},
      {R"("host_path": "/a", "mount_path": "/b", "manifest_path": "m")",
       "extra_mounts[0]: manifest_path must be an absolute host path"},
  };
  for (const auto& [fields, sentence] : rows) {
    EXPECT_EQ(refusal_of([&] { read_mount(fields); }), sentence) << fields;
  }
}

TEST(ReadBoxRequest, RefusesANameThatIsNotUtf8) {
  EXPECT_EQ(refusal_of([] {
              read_box_request(boost::json::object{{"session_id", "a\xff"}});
            }),
            "session_id must be UTF-8: \"a\xEF\xBF\xBD\"");
}

TEST(ReadBoxRequest, FillsInTheDefaults) {
  const BoxRequest spec = read("");
  EXPECT_EQ(spec, BoxRequest{.session_id = "s1"});
  EXPECT_EQ(spec.command.cmd, "");
  EXPECT_EQ(spec.command.workdir, "/workspace");
  EXPECT_EQ(spec.command.timeout_sec, 30);
  EXPECT_EQ(spec.box.network, NetworkMode::off);
  EXPECT_TRUE(spec.command.env.empty());
  EXPECT_EQ(spec.box.image, "rockchin/langbot-sandbox:latest");
  EXPECT_EQ(spec.box.host_path, std::nullopt);
  EXPECT_EQ(spec.box.host_path_mode, MountMode::rw);
  EXPECT_EQ(spec.box.mount_path, "/workspace");
  EXPECT_TRUE(spec.box.extra_mounts.empty());
  EXPECT_FALSE(spec.box.persistent);
  EXPECT_EQ(spec.box.cpus, 1.0);
  EXPECT_EQ(spec.box.memory_mb, 512);
  EXPECT_EQ(spec.box.pids_limit, 128);
  EXPECT_TRUE(spec.box.read_only_rootfs);
  EXPECT_EQ(spec.box.workspace_quota_mb, 0);
}

TEST(ReadBoxRequest, ReadsEveryFieldAndIgnoresUnknownOnes) {
  const BoxRequest spec = read(R"("cmd": "  ls ", "workdir": " /code/src ", "timeout_sec": "9.0",
    "network": "on", "env": {"A": "1"}, "image": "debian", "host_path": " /srv/data ",
    "host_path_mode": "ro", "mount_path": "/code", "persistent": "yes", "cpus": "1e1",
    "extra_mounts": [{"host_path": "/a", "mount_path": "/b", "later": 1},
                     {"host_path": "C:\\x", "mount_path": "/c/", "mode": "none"}],
    "skill_name": "ignored", "memory_mb": " 64 ", "pids_limit": true, "read_only_rootfs": 0,
    "workspace_quota_mb": 5.0, "some_future_field": [])");
  EXPECT_EQ(
      spec,
      (BoxRequest{
          .session_id = "s1",
          .box = {.network = NetworkMode::on,
                  .image = "debian",
                  .host_path = "/srv/data",
                  .host_path_mode = MountMode::ro,
                  .mount_path = "/code",
                  .extra_mounts = {{"/a", "/b", MountMode::rw}, {"C:\\x", "/c", MountMode::none}},
                  .persistent = true,
                  .cpus = 10,
                  .memory_mb = 64,
                  .pids_limit = 1,
                  .read_only_rootfs = false,
                  .workspace_quota_mb = 5},
          .mounting = Mounting::fixed,
          .command = {
              .cmd = "ls", .workdir = "/code/src", .timeout_sec = 9, .env = {{"A", "1"}}}}));
  EXPECT_EQ(read_box_request(to_json(spec)), spec);
}

TEST(ReadBoxRequest, RefusesWithTheSentencesThatClientsMatch) {
  const std::pair<const char*, const char*> rows[] = {
      {R"("workdir": "src")", "workdir must be an absolute path inside the sandbox"},
      {R"("workdir": "")", "workdir must be an absolute path inside the sandbox"},
      {R"("timeout_sec": 0)", "timeout_sec must be greater than 0"},
      {R"("timeout_sec": -1)", "timeout_sec must be greater than 0"},
      {R"("host_path": "")", "host_path must be an absolute host path"},
      {R"("host_path": "data")", "host_path must be an absolute host path"},
      {R"("host_path": "C:data")", "host_path must be an absolute host path"},
      {R"("mount_path": "work")", "mount_path must be an absolute path inside the sandbox"},
      {R"("cpus": 0)", "cpus must be greater than 0"},
      {R"("cpus": "-0.5")", "cpus must be greater than 0"},
      {R"("memory_mb": 31)", "memory_mb must be at least 32"},
      {R"("pids_limit": 0)", "pids_limit must be at least 1"},
      {R"("workspace_quota_mb": -1)", "workspace_quota_mb must be greater than or equal to 0"},
      {R"("host_path": "/srv", "workdir": "/tmp")",
       "workdir must stay under mount_path when host_path is provided"},
      {R"("extra_mounts": [{"host_path": "x", "mount_path": "/b"}])",
       "extra_mounts[0]: host_path must be an absolute host path"},
      {R"("extra_mounts": [{"host_path": "/x", "mount_path": "b"}])",
       "extra_mounts[0]: mount_path must be an absolute path inside the sandbox"},
  };
  for (const auto& [fields, sentence] : rows) {
    // A workdir that follows the mount path would be the first to be refused.
    const std::string prefix =
        std::string(fields).starts_with("\"mount_path\"") ? R"("workdir": "/w", )" : "";
    EXPECT_EQ(refusal(prefix + fields), sentence) << fields;
  }
  EXPECT_EQ(refusal_of([] { read_box_request(parse_json(R"({"session_id": "  "})")); }),
            "session_id must not be empty");
}

TEST(ReadBoxRequest, NamesTheFieldOfAWrongType) {
  const std::pair<const char*, const char*> rows[] = {
      {R"("cmd": 1)", "cmd: must be a string"},
      {R"("cmd": null)", "cmd: must be a string"},
      {R"("workdir": null)", "workdir: must be a string"},
      {R"("timeout_sec": "1e3")", "timeout_sec: must be an integer"},
      {R"("timeout_sec": null)", "timeout_sec: must be an integer"},
      {R"("network": "ON")", R"(network: must be one of "off", "on")"},
      {R"("network": true)", "network: must be a string"},
      {R"("env": null)", "env: must be an object"},
      {R"("env": {"A": 1})", "env.A: must be a string"},
      {R"("image": null)", "image: must be a string"},
      {R"("host_path": 3)", "host_path: must be a string"},
      {R"("host_path_mode": "RW")", R"(host_path_mode: must be one of "none", "ro", "rw")"},
      {R"("extra_mounts": null)", "extra_mounts: must be a list"},
      {R"("extra_mounts": [1])", "extra_mounts[0]: must be an object"},
      {R"("extra_mounts": [{"mount_path": "/b"}])", "extra_mounts[0].host_path: is required"},
      {R"("extra_mounts": [{"host_path": "/b"}])", "extra_mounts[0].mount_path: is required"},
      {R"("persistent": "maybe")", "persistent: must be true or false"},
      {R"("cpus": "many")", "cpus: must be a number"},
      {R"("memory_mb": 64.5)", "memory_mb: must be an integer"},
      {R"("read_only_rootfs": null)", "read_only_rootfs: must be true or false"},
  };
  for (const auto& [fields, sentence] : rows) EXPECT_EQ(refusal(fields), sentence) << fields;
  EXPECT_EQ(refusal_of([] { read_box_request(parse_json("{}")); }), "session_id: is required");
  EXPECT_EQ(refusal_of([] { read_box_request(parse_json(R"({"session_id": 1})")); }),
            "session_id: must be a string");
  EXPECT_EQ(refusal_of([] { read_box_request(parse_json("[]")); }), "must be an object");
}

TEST(ReadBoxRequest, ReportsTheFirstOfSeveralFaultsInFieldOrder) {
  EXPECT_EQ(refusal(R"("pids_limit": 0, "cpus": 0, "timeout_sec": 0)"),
            "timeout_sec must be greater than 0");
  EXPECT_EQ(refusal_of([] { read_box_request(parse_json(R"({"timeout_sec": 0})")); }),
            "timeout_sec must be greater than 0");
}

TEST(ReadBoxRequest, RefusesNumbersThatAreNotFinite) {
  for (const char* text : {R"("nan")", R"("inf")", R"("-inf")", R"("Infinity")"}) {
    EXPECT_EQ(refusal(std::string("\"cpus\": ") + text), "cpus must be a finite number") << text;
  }
  EXPECT_EQ(refusal(R"("memory_mb": "inf")"), "memory_mb: must be an integer");
}

TEST(ReadBoxRequest, TakesHugeNumbersAsTheMostThatHasAMeaning) {
  const BoxRequest spec = read(R"("timeout_sec": 1000000000000000000000000, "cpus": 1e300,
    "memory_mb": 18446744073709551615, "pids_limit": 9223372036854775807,
    "workspace_quota_mb": "99999999999999999999999")");
  EXPECT_EQ(spec.command.timeout_sec, kMaxTimeoutSec);
  EXPECT_EQ(spec.box.cpus, kMaxCpus);
  EXPECT_EQ(spec.box.memory_mb, kMaxMegabytes);
  EXPECT_EQ(spec.box.pids_limit, kMaxPidsLimit);
  EXPECT_EQ(spec.box.workspace_quota_mb, kMaxMegabytes);
}

TEST(ReadBoxRequest, LetsAnUnsetWorkdirFollowTheMountPath) {
  EXPECT_EQ(read(R"("mount_path": "/code")").command.workdir, "/code");
  EXPECT_EQ(read(R"("mount_path": "/code", "workdir": null)").command.workdir, "/code");
  EXPECT_EQ(read(R"("mount_path": "/code", "workdir": "")").command.workdir, "/code");
  EXPECT_EQ(read(R"("mount_path": "/code", "workdir": "/x")").command.workdir, "/x");
  EXPECT_EQ(refusal(R"("mount_path": "/code", "workdir": " ")"),
            "workdir must be an absolute path inside the sandbox");
  EXPECT_EQ(refusal(R"("mount_path": " ")"),
            "mount_path must be an absolute path inside the sandbox");
  EXPECT_EQ(refusal(R"("mount_path": 3)"), "mount_path: must be a string");
}

TEST(ReadBoxRequest, KeepsTheWorkdirUnderAMountedPath) {
  const char* sentence = "workdir must stay under mount_path when host_path is provided";
  EXPECT_EQ(refusal(R"("host_path": "/srv", "workdir": "/workspace/a")"), "");
  EXPECT_EQ(refusal(R"("host_path": "/srv", "workdir": "/workspace2")"), sentence);
  EXPECT_EQ(refusal(R"("host_path": "/srv", "host_path_mode": "none", "workdir": "/tmp")"), "");
  EXPECT_EQ(refusal(R"("workdir": "/tmp")"), "");
}

TEST(ReadBoxRequest, JudgesPathsInNormalForm) {
  const char* sentence = "workdir must stay under mount_path when host_path is provided";
  EXPECT_EQ(refusal(R"("host_path": "/srv", "workdir": "/workspace/../x")"), sentence);
  const BoxRequest spec =
      read(R"("host_path": "/srv/../data//a/", "workdir": "/workspace/./b/../c/",
                               "mount_path": "/workspace/")");
  EXPECT_EQ(spec.box.host_path, "/data/a");
  EXPECT_EQ(spec.command.workdir, "/workspace/c");
  EXPECT_EQ(spec.box.mount_path, "/workspace");
  EXPECT_EQ(read(R"("host_path": "/srv", "mount_path": "/", "workdir": "/x")").command.workdir,
            "/x");
}

TEST(ReadBoxRequest, TakesWindowsHostPathsAsTheyAre) {
  for (const char* text : {R"(C:\\data\\..\\x)", R"(c:/data)", R"(\\\\server\\share)"}) {
    const BoxRequest spec = read(std::string(R"("host_path": ")") + text + "\"");
    EXPECT_EQ(spec.box.host_path, parse_json(std::string("\"") + text + "\"").as_string());
  }
}

TEST(ReadBoxRequest, RefusesTextThatTheKernelWouldCutOrMisread) {
  EXPECT_EQ(refusal(R"("host_path": "/tmp/\u0000/../etc")"),
            "host_path: must not contain a NUL character");
  EXPECT_EQ(refusal(R"("env": {"A=B": "1"})"),
            R"(env: the name "A=B" must not be empty or contain '=')");
  EXPECT_EQ(refusal(R"("env": {"": "1"})"), R"(env: the name "" must not be empty or contain '=')");
}

TEST(RequireCommand, RefusesABlankOne) {
  EXPECT_EQ(refusal_of([] { require_command(read(R"("cmd": "  ")")); }), "cmd must not be empty");
  EXPECT_EQ(refusal_of([] { require_command(read(R"("cmd": "ls")")); }), "");
}

TEST(ExecResult, SurvivesJson) {
  const ExecResult result{.session_id = "s1",
                          .backend_name = "native",
                          .status = ExecStatus::completed,
                          .exit_code = 137,
                          .out = std::string("a\0b", 3),
                          .err = "e",
                          .duration_ms = 12,
                          .signal = 9,
                          .oom = true,
                          .oom_limit_mb = 512,
                          .cpu_ms = 3,
                          .peak_memory_bytes = 1 << 20,
                          .stdout_discarded = 4,
                          .stderr_discarded = 5,
                          .box_lost = "its box is gone"};
  EXPECT_EQ(read_exec_result(to_json(result)), result);
}

TEST(ExecResult, ShowsNullsForACommandThatTimedOut) {
  const boost::json::object object = to_json(ExecResult{.session_id = "s1",
                                                        .backend_name = "native",
                                                        .status = ExecStatus::timed_out,
                                                        .duration_ms = 1000});
  EXPECT_EQ(boost::json::value(object), parse_json(R"({"session_id": "s1", "backend_name": "native",
    "status": "timed_out", "exit_code": null, "stdout": "", "stderr": "", "duration_ms": 1000,
    "signal": null, "oom": false, "oom_limit_mb": null, "cpu_ms": 0, "peak_memory_bytes": 0,
    "stdout_discarded": 0, "stderr_discarded": 0, "box_lost": null})"));
}

TEST(ExecResult, NeedsOnlyWhatLangBotSends) {
  const ExecResult result = read_exec_result(parse_json(
      R"({"session_id": "s", "backend_name": "b", "status": "completed", "duration_ms": 1})"));
  EXPECT_EQ(result.exit_code, std::nullopt);
  EXPECT_EQ(refusal_of([] { read_exec_result(parse_json(R"({"session_id": "s"})")); }),
            "backend_name: is required");
}

}  // namespace
}  // namespace caisson::model
