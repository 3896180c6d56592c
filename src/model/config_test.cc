#include "model/config.h"

#include <gmock/gmock.h>

#include "model/refusal_for_test.h"
#include "model/yaml.h"

namespace caisson::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Config read(const char* text) {
  return read_config(parse_json(text));
}
BoxConfig read_box(const char* text) {
  return read_box_config(parse_json(text)).config;
}
std::string refusal(const char* text) {
  return refusal_of([&] { read(text); });
}
Config read_with(const std::vector<std::string>& environment, const char* text = "{}") {
  return read_config(apply_environment(with_defaults(parse_json(text)), environment).tree);
}

TEST(ReadConfig, FillsInTheDefaults) {
  EXPECT_EQ(read("{}"), Config());
  EXPECT_EQ(read("null"), Config());
  EXPECT_EQ(read(R"({"box": null, "mcp": null, "system": null, "caisson": null})"), Config());
  EXPECT_EQ(read(R"({"box": {"local": null, "limits": null, "e2b": {}, "native": null}})"),
            Config());
  EXPECT_EQ(read_config(to_json(Config())), Config());
  EXPECT_EQ(read_config(with_defaults(parse_json("{}"))), Config());
  const Config config;
  EXPECT_TRUE(config.box.enabled);
  EXPECT_EQ(config.box.backend, "local");
  EXPECT_EQ(config.box.local.host_root, "./data/box");
  EXPECT_THAT(config.box.local.mount_roots(), ElementsAre("./data/box"));
  EXPECT_EQ(config.box.default_memory_mb, 1536);
  EXPECT_EQ(config.daemon.listen_host, "127.0.0.1");
  EXPECT_EQ(config.daemon.listen_port, 5410);
}

TEST(ReadConfig, ReadsEveryKeyFromYaml) {
  const Config config = read_config(parse_yaml(R"(
box:
  enabled: true
  backend: ' native '
  runtime: {endpoint: 'ws://other:5410'}
  local:
    profile: network_basic
    image: ' debian '
    host_root: /srv/box
    default_workspace: ws
    skills_root: /srv/skills
    allowed_mount_roots: [' /srv ', '', /data]
    workspace_quota_mb: '1_000'
  limits: {max_sessions: 3, max_workspace_entries: 50}
  default_memory_mb: 2048
  docker: {cpu_limit_enabled: off}
  e2b: {api_key: k, api_url: u, template: t}
  admission: {required: true}
  native: {allow_missing: [seccomp, cpu_limit]}
mcp:
  stdio: {enabled: no}
  lifecycle_concurrency: 4
system: {limitation: {force_box_session_id_template: ' global '}}
caisson:
  listen: {host: 0.0.0.0, port: 80, socket: /srv/api.sock}
  state_dir: /var/lib/caisson
  allowed_hosts: [boxes.example, ' ']
  allowed_users: [langbot, ' ', 1001]
  token_required: yes
  max_connections: 7
  max_connections_per_peer: 6
  max_buffered_bytes: 67108864
  message_deadline_sec: 9
  log_format: json
  log_level: Debug
  recovery: no
  on_stop: leave
  pools: off
  shell_idle_sec: 1
  session_ttl_sec: 2
  persistent_idle_limit_sec: 3
  max_output_bytes: 4
  max_command_bytes: 5
  max_download_bytes: 6
  request_id_ttl_sec: 6
  max_request_ids: 7
  max_request_id_bytes: 8
)",
                                               "c.yaml"));
  Config expected;
  expected.box.backend = "native";
  expected.box.runtime_endpoint = "ws://other:5410";
  expected.box.local = {.profile = "network_basic",
                        .image = "debian",
                        .host_root = "/srv/box",
                        .default_workspace = "ws",
                        .skills_root = "/srv/skills",
                        .allowed_mount_roots = {"/srv", "/data"},
                        .workspace_quota_mb = 1000};
  expected.box.limits.max_sessions = 3;
  expected.box.max_workspace_entries = 50;
  expected.box.default_memory_mb = 2048;
  expected.box.docker_cpu_limit_enabled = false;
  expected.box.e2b = {"k", "u", "t"};
  expected.box.admission.policy.required = true;
  expected.box.native.allow_missing = {Layer::seccomp, Layer::cpu_limit};
  expected.mcp = {.stdio_enabled = false, .lifecycle_concurrency = 4};
  expected.force_session_id_template = "global";
  expected.daemon = {.listen_host = "0.0.0.0",
                     .listen_port = 80,
                     .listen_socket = "/srv/api.sock",
                     .state_dir = "/var/lib/caisson",
                     .allowed_hosts = {"boxes.example"},
                     .allowed_users = {"langbot", "1001"},
                     .token_required = true,
                     .max_connections = 7,
                     .max_connections_per_peer = 6,
                     .max_buffered_bytes = 64 << 20,
                     .message_deadline_sec = 9,
                     .log_format = log::Format::json,
                     .log_level = log::Level::debug,
                     .recovery = false,
                     .on_stop = OnStop::leave,
                     .pools = false,
                     .shell_idle_sec = 1,
                     .session_ttl_sec = 2,
                     .persistent_idle_limit_sec = 3,
                     .max_output_bytes = 4,
                     .max_command_bytes = 5,
                     .max_download_bytes = 6,
                     .request_id_ttl_sec = 6,
                     .max_request_ids = 7,
                     .max_request_id_bytes = 8};
  EXPECT_EQ(config, expected);
  EXPECT_EQ(read_config(to_json(config)), config);
}

TEST(ReadConfig, TurnsBoxesOffOnlyForAClearNo) {
  for (const char* text :
       {"false", R"("False")", R"(" off ")", R"("no")", R"("0")", R"("")", "0"}) {
    EXPECT_FALSE(read_box(("{\"enabled\": " + std::string(text) + "}").c_str()).enabled) << text;
  }
  for (const char* text : {"true", R"("yes")", R"("disabled")", "1", "null", "[]", "0.0"}) {
    EXPECT_TRUE(read_box(("{\"enabled\": " + std::string(text) + "}").c_str()).enabled) << text;
  }
}

TEST(ReadConfig, ReadsLocalKeysAsLangBotDoes) {
  const auto local = [](const char* text) { return read_box(text).local; };
  EXPECT_EQ(local(R"({"local": {"profile": "  "}})").profile, "default");
  EXPECT_EQ(local(R"({"local": {"host_root": " "}})").host_root, std::nullopt);
  EXPECT_EQ(local(R"({"local": {"skills_root": ""}})").skills_root, "skills");
  EXPECT_THAT(local(R"({"local": {"allowed_mount_roots": " /a, ,/b ,"}})").allowed_mount_roots,
              ElementsAre("/a", "/b"));
  EXPECT_THAT(local(R"({"local": {"allowed_mount_roots": [], "host_root": "/r"}})").mount_roots(),
              ElementsAre("/r"));
  EXPECT_THAT(local(R"({"local": {"allowed_mount_roots": "", "host_root": ""}})").mount_roots(),
              IsEmpty());
  EXPECT_EQ(local(R"({"local": {"workspace_quota_mb": ""}})").workspace_quota_mb, std::nullopt);
  EXPECT_EQ(local(R"({"local": {"workspace_quota_mb": null}})").workspace_quota_mb, std::nullopt);
  EXPECT_EQ(local(R"({"local": {"workspace_quota_mb": "5"}})").workspace_quota_mb, 5);
}

TEST(ReadConfig, RefusesWithTheSentencesThatOperatorsKnow) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"box": {"local": {"profile": "fast"}}})",
       "unknown box profile 'fast', available profiles: default, network_basic, network_extended, "
       "offline, offline_readonly"},
      {R"({"box": {"local": {"workspace_quota_mb": "x"}}})",
       "workspace_quota_mb must be an integer greater than or equal to 0"},
      {R"({"box": {"local": {"workspace_quota_mb": -1}}})",
       "workspace_quota_mb must be greater than or equal to 0"},
      {R"({"box": {"limits": {"max_sessions": "5"}}})",
       "box.limits.max_sessions must be an integer"},
      {R"({"box": {"limits": 5}})", "box.limits must be an object"},
      {R"({"box": []})", "box: must be an object"},
      {R"({"box": {"local": 3}})", "box.local: must be an object"},
      {R"({"box": {"local": {"image": 3}}})", "box.local.image: must be a string"},
      {R"({"box": {"local": {"allowed_mount_roots": [1]}}})",
       "box.local.allowed_mount_roots[0]: must be a string"},
      {R"({"box": {"docker": {"cpu_limit_enabled": "maybe"}}})",
       "box.docker.cpu_limit_enabled: must be true or false"},
      {R"({"box": {"native": {"allow_missing": ["secomp"]}}})",
       "box.native.allow_missing: unknown isolation layer \"secomp\""},
      {R"({"box": {"native": {"allow_mising": []}}})", "box.native.allow_mising: unknown field"},
      {R"({"caisson": {"listen": {"port": 70000}}})",
       "caisson.listen.port: must be between 0 and 65535"},
      {R"({"caisson": {"listen": {"host": ""}}})", "caisson.listen.host: must not be empty"},
      {R"({"caisson": {"listen": {"prt": 1}}})", "caisson.listen.prt: unknown field"},
      {R"({"caisson": {"listen": {"socket": "api.sock"}}})",
       "caisson.listen.socket: must be auto, none or an absolute path"},
      {R"({"caisson": {"allowed_users": [-1]}})",
       "caisson.allowed_users: must be a list of names and numbers of users"},
      {R"({"caisson": {"statedir": "x"}})", "caisson.statedir: unknown field"},
      {R"({"caisson": {"log_level": "loud"}})",
       "caisson.log_level: must be one of debug, info, warning, error"},
      {R"({"caisson": {"log_format": 1}})", "caisson.log_format: must be a string"},
      {R"({"caisson": {"max_connections": 0}})",
       "caisson.max_connections: must be between 1 and 1000000"},
      {R"({"caisson": {"max_buffered_bytes": 1000}})",
       "caisson.max_buffered_bytes: must be between 67108864 and 1099511627776"},
      {R"({"caisson": {"session_ttl_sec": -1}})",
       "caisson.session_ttl_sec: must be between 1 and 1000000000"},
      {R"({"caisson": {"token_required": "maybe"}})",
       "caisson.token_required: must be auto, true or false"},
      {R"({"caisson": {"token_required": false, "listen": {"host": "0.0.0.0"}}})",
       "caisson.token_required: must not be false while caisson.listen.host is 0.0.0.0: others "
       "could connect and run commands"},
      {"[]", "must be an object"},
  };
  for (const auto& [text, sentence] : rows) EXPECT_EQ(refusal(text), sentence) << text;
}

TEST(ReadConfig, ForgivesTheKeysThatLangBotForgives) {
  const auto entries = [](const char* value) {
    return read_box(
               ("{\"limits\": {\"max_workspace_entries\": " + std::string(value) + "}}").c_str())
        .max_workspace_entries;
  };
  EXPECT_EQ(entries("\"x\""), 100'000);
  EXPECT_EQ(entries("null"), 100'000);
  EXPECT_EQ(entries("0"), 1);
  EXPECT_EQ(entries("2000000"), 1'000'000);
  EXPECT_EQ(read_box(R"({"default_memory_mb": "lots"})").default_memory_mb, 1536);
  const auto concurrency = [](const char* value) {
    return read(("{\"mcp\": {\"lifecycle_concurrency\": " + std::string(value) + "}}").c_str())
        .mcp.lifecycle_concurrency;
  };
  for (const char* value : {"0", "-1", "true", "\"8\"", "8.0", "null"}) {
    EXPECT_EQ(concurrency(value), 16) << value;
  }
  EXPECT_EQ(concurrency("1"), 1);
  EXPECT_EQ(concurrency("500"), 128);
}

TEST(ReadConfig, ListsTheFieldsItIgnores) {
  const Config config = read(R"({"api": {"port": 1}, "mcp": {"other": 1},
    "box": {"new": 1, "local": {"hots_root": "x"}, "limits": {"max_session": 1}}})");
  EXPECT_THAT(config.ignored_fields,
              ElementsAre("box.limits.max_session", "box.new", "box.local.hots_root", "api"));
}

TEST(ReadConfig, NeverDowngradesAMalformedAdmissionSection) {
  const Config config = read(R"({"box": {"admission": {"requird": true}}})");
  EXPECT_TRUE(config.box.admission.policy.required);
  EXPECT_EQ(config.box.admission.configuration_error, "admission.requird: unknown field");
  EXPECT_TRUE(read(R"({"box": {"admission": null}})").box.admission.policy.required);
}

TEST(DaemonConfig, TakesUsersByNameAndNumber) {
  const std::vector<std::string> users = {"langbot", "1001"};
  EXPECT_EQ(read(R"({"caisson": {"allowed_users": "langbot, 1001"}})").daemon.allowed_users, users);
  EXPECT_EQ(read_with({"CAISSON__ALLOWED_USERS=langbot,1001"}).daemon.allowed_users, users);
  EXPECT_THAT(read(R"({"caisson": {"allowed_users": 1001}})").daemon.allowed_users,
              ElementsAre("1001"));
  EXPECT_THAT(read(R"({"caisson": {"allowed_users": null}})").daemon.allowed_users, ElementsAre());
}

TEST(DaemonConfig, NeedsATokenWheneverOthersCanConnect) {
  for (const char* host : {"127.0.0.1", "127.8.9.10", "localhost", "LocalHost", "::1", "[::1]"}) {
    EXPECT_FALSE(needs_token({.listen_host = host})) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "", "192.168.0.1", "127.0.0.1.example", "127.0.0",
                           "127.0.0.256", "1127.0.0.1", "localhost.example", "127.0.0.0x1"}) {
    EXPECT_TRUE(needs_token({.listen_host = host})) << host;
  }
  EXPECT_TRUE(needs_token({.token_required = true}));
  EXPECT_FALSE(needs_token({.token_required = false}));
  EXPECT_EQ(read(R"({"caisson": {"token_required": "auto"}})").daemon.token_required, std::nullopt);
  EXPECT_EQ(read_with({"CAISSON__TOKEN_REQUIRED=on"}).daemon.token_required, true);
}

TEST(ReadBoxConfig, KeepsTheCurrentValueOfAbsentFields) {
  BoxConfig current;
  current.local.host_root = std::nullopt;
  current.local.allowed_mount_roots = {};
  current.limits.max_sessions = 5;
  current.native.allow_missing = {Layer::seccomp};
  current.e2b.api_key = "k";
  EXPECT_EQ(read_box_config(parse_json("{}"), current).config, current);
  EXPECT_EQ(read_box_config(parse_json("null"), current).config, current);
  const BoxConfig changed =
      read_box_config(parse_json(R"({"limits": {"max_managed_processes": 6}})"), current).config;
  EXPECT_EQ(changed.limits.max_sessions, 5);
  EXPECT_EQ(changed.limits.max_managed_processes, 6);
}

TEST(ApplyEnvironment, ConvertsToTheTypeOfWhatItReplaces) {
  const Config config = read_with(
      {"BOX__LOCAL__HOST_ROOT=/srv=x", "BOX__ENABLED=On", "BOX__LIMITS__MAX_SESSIONS= 1_0 ",
       "BOX__ADMISSION__CPUS=2", "BOX__LOCAL__ALLOWED_MOUNT_ROOTS=/a, ,/b",
       "BOX__LOCAL__PROFILE=", "BOX__LOCAL__WORKSPACE_QUOTA_MB=9",
       "BOX__NATIVE__ALLOW_MISSING=seccomp,network", "CAISSON__LISTEN__PORT=99",
       "MCP__STDIO__ENABLED=nonsense", "SYSTEM__LIMITATION__FORCE_BOX_SESSION_ID_TEMPLATE=one"});
  EXPECT_EQ(config.box.local.host_root, "/srv=x");
  EXPECT_TRUE(config.box.enabled);
  EXPECT_EQ(config.box.limits.max_sessions, 10);
  EXPECT_EQ(config.box.admission.policy.cpus, 2.0);
  EXPECT_EQ(config.box.admission.configuration_error, "");
  EXPECT_THAT(config.box.local.allowed_mount_roots, ElementsAre("/a", "/b"));
  EXPECT_EQ(config.box.local.profile, "default");
  EXPECT_EQ(config.box.local.workspace_quota_mb, 9);
  EXPECT_THAT(config.box.native.allow_missing, ElementsAre(Layer::network, Layer::seccomp));
  EXPECT_EQ(config.daemon.listen_port, 99);
  EXPECT_FALSE(config.mcp.stdio_enabled);
  EXPECT_EQ(config.force_session_id_template, "one");
}

TEST(ApplyEnvironment, KeepsTheTextThatDoesNotConvert) {
  EXPECT_EQ(refusal_of([] { read_with({"BOX__LIMITS__MAX_SESSIONS=many"}); }),
            "box.limits.max_sessions must be an integer");
  EXPECT_EQ(refusal_of([] { read_with({"BOX__LIMITS__MAX_SESSIONS=9.0"}); }),
            "box.limits.max_sessions must be an integer");
  EXPECT_NE(read_with({"BOX__ADMISSION__CPUS=nan"}).box.admission.configuration_error, "");
}

TEST(ApplyEnvironment, ConvertsListElementsByTheFirstOne) {
  const auto list = [](const char* tree, const char* value) {
    return apply_environment(parse_json(tree), {"A__B=" + std::string(value)}).tree.at("a").at("b");
  };
  EXPECT_EQ(list(R"({"a": {"b": [1]}})", "2, 3,x"), parse_json(R"([2, 3, "x"])"));
  EXPECT_EQ(list(R"({"a": {"b": [true]}})", "1,no"), parse_json("[true, false]"));
  EXPECT_EQ(list(R"({"a": {"b": [0.5]}})", "2"), parse_json("[2.0]"));
  EXPECT_EQ(list(R"({"a": {"b": []}})", "2"), parse_json(R"(["2"])"));
}

TEST(ApplyEnvironment, TakesOnlyUpperCaseNamesWithoutEmptySegments) {
  const Overridden overridden = apply_environment(
      parse_json(R"({"a": {"b": {}}, "s": 1, "n": null})"),
      {"a__b=1", "A_B=1", "__A__C=1", "A__C__=1", "A____C=1", "Ax__C=1", "1__2=1", "NOEQUALS__X",
       "A__B=object", "S__X=scalar", "A__C=1", "N__X=2", "NEW__KEY=3"});
  EXPECT_EQ(overridden.tree, parse_json(R"({"a": {"b": {}, "c": "1"}, "s": 1, "n": {"x": "2"},
    "new": {"key": "3"}})"));
  EXPECT_THAT(overridden.variables, ElementsAre("A__C", "N__X", "NEW__KEY"));
}

TEST(ApplyEnvironment, KnowsTheVariablesOfE2b) {
  const Config config =
      read_with({"E2B_API_KEY=k", "E2B_API_URL="}, R"({"box": {"e2b": {"api_url": "u"}}})");
  EXPECT_EQ(config.box.e2b.api_key, "k");
  EXPECT_EQ(config.box.e2b.api_url, "u");
}

TEST(WithDefaults, LeavesWhatIsThere) {
  const boost::json::value tree =
      with_defaults(parse_json(R"({"box": {"admission": null, "local": {"image": "x"}}})"));
  EXPECT_TRUE(tree.at("box").at("admission").is_null());
  EXPECT_EQ(tree.at("box").at("local").at("image"), "x");
  EXPECT_EQ(tree.at("box").at("local").at("skills_root"), "skills");
  EXPECT_EQ(with_defaults(parse_json("[]")), parse_json("[]"));
}

}  // namespace
}  // namespace caisson::model
