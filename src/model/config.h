#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "model/admission.h"
#include "model/isolation.h"
#include "model/limits.h"
#include "model/profile.h"

namespace caisson::model {

inline constexpr std::string_view kDefaultHostRoot = "./data/box";

// `box.local`: what boxes on this host get and may see. Paths are as written, trimmed; whoever uses
// them resolves them against the working directory of whoever wrote them.
struct LocalConfig {
  std::string profile{kDefaultProfile};
  std::string image;  // empty: the profile's
  std::optional<std::string> host_root{kDefaultHostRoot};
  std::string default_workspace;                   // empty: "default" under host_root
  std::string skills_root = "skills";              // relative: under host_root
  std::vector<std::string> allowed_mount_roots;    // empty: what is below host_root
  std::optional<std::int64_t> workspace_quota_mb;  // none: the profile's
  // Where directories are that boxes may show; empty where there is no host_root either.
  std::vector<std::string> mount_roots() const {
    if (!allowed_mount_roots.empty() || !host_root) return allowed_mount_roots;
    return {*host_root};
  }
  bool operator==(const LocalConfig&) const = default;
};

struct E2bConfig {
  std::string api_key;
  std::string api_url;
  std::string template_id;  // the key is "template"
  bool operator==(const E2bConfig&) const = default;
};

// `box.native`: our own.
struct NativeConfig {
  // Layers whose absence the operator accepts. A box without one of them starts, and says so.
  std::set<Layer> allow_missing;
  std::string answer_as;  // "nsjail" for hosts that insist on it; empty: "native"
  bool operator==(const NativeConfig&) const = default;
};

// The `box` tree. LangBot sends the same tree when it connects.
struct BoxConfig {
  bool enabled = true;
  std::string backend = "local";  // empty: any; names are judged where backends are selected
  std::string runtime_endpoint;   // of another runtime, for LangBot's own use
  LocalConfig local;
  Limits limits;
  std::int64_t max_workspace_entries = 100'000;  // of `box.limits`
  std::int64_t default_memory_mb = 1536;         // of the sessions of MCP servers
  bool docker_cpu_limit_enabled = true;
  E2bConfig e2b;
  AdmissionSettings admission;
  NativeConfig native;
  bool operator==(const BoxConfig&) const = default;
};

struct McpConfig {
  bool stdio_enabled = true;
  std::int64_t lifecycle_concurrency = 16;
  bool operator==(const McpConfig&) const = default;
};

// The `caisson` tree: our own.
// What becomes of boxes when the daemon is told to stop.
enum class OnStop {
  automatic,  // leave them when a supervisor runs the daemon, who will start it again
  leave,
  remove,
};

// `caisson.langbot`: how hosts that speak Action RPC are served.
struct LangbotConfig {
  bool legacy = true;                 // those that do not say which instance they are may come
  bool accept_mount_roots = false;    // also of hosts that showed no token
  std::int64_t skill_quota_mb = 256;  // of a workspace's skills, where quotas are enforced
  bool operator==(const LangbotConfig&) const = default;
};

struct DaemonConfig {
  std::string listen_host = "127.0.0.1";
  std::int64_t listen_port = 5410;
  std::string listen_socket =
      "auto";             // a path, "none", or "auto": in this user's runtime directory
  std::string state_dir;  // empty: the default of this user
  std::vector<std::string> allowed_hosts;  // names besides those of loopback in a Host header
  // Users of this host, by name or number, who need no token on loopback, as root and the daemon's
  // own never do.
  std::vector<std::string> allowed_users;
  // On the port. None ("auto"): of everybody but the users above. False: of nobody on this host.
  std::optional<bool> token_required;
  std::int64_t max_connections = 1024;
  std::int64_t max_connections_per_peer = 512;  // of one address of another host
  std::int64_t max_buffered_bytes = 256 << 20;  // kept in memory for all peers together
  std::int64_t message_deadline_sec = 60;       // for a whole body or websocket message
  log::Format log_format = log::Format::text;
  log::Level log_level = log::Level::info;
  bool recovery = true;  // boxes survive a daemon that is killed
  OnStop on_stop = OnStop::automatic;
  bool pools = true;                           // keep boxes and shells ready for the next caller
  std::int64_t shell_idle_sec = 10;            // how long a parked shell waits for one
  std::int64_t session_ttl_sec = 300;          // of a session that nobody uses
  std::int64_t persistent_idle_limit_sec = 0;  // the same, of persistent ones; 0: never
  std::int64_t max_output_bytes = 1 << 20;     // kept of each stream of an exec
  std::int64_t max_command_bytes = 16 << 20;   // of an exec, its environment included
  std::int64_t max_download_bytes = std::int64_t{16} << 30;  // of a file of a session
  // Of execs with a request id: how long an answer is kept after the end, and how much at most.
  std::int64_t request_id_ttl_sec = 600;
  std::int64_t max_request_ids = 1000;
  std::int64_t max_request_id_bytes = 64 << 20;
  LangbotConfig langbot;
  bool operator==(const DaemonConfig&) const = default;
};

// Whether only programs on this host can connect to an address: 127.0.0.0/8, ::1, localhost.
bool is_loopback(std::string_view host);

// Whether every caller of the port has to show the token.
bool needs_token(const DaemonConfig& config);

struct Config {
  BoxConfig box;
  McpConfig mcp;
  std::string force_session_id_template;  // system.limitation.force_box_session_id_template
  DaemonConfig daemon;
  // Fields of the root and of `box` that nothing here reads, by path. The file may be LangBot's
  // own, so they are no error; `caisson config check` shows them.
  std::vector<std::string> ignored_fields;
  bool operator==(const Config&) const = default;
};

// A tree and the fields in it that nothing reads.
struct ReadBoxConfig {
  BoxConfig config;
  std::vector<std::string> ignored_fields;
};

// A null tree and null sections read as empty ones, absent fields as their default or as what
// `current` holds. Unknown fields of our own trees (`caisson`, `box.native`) are refused.
Config read_config(const boost::json::value& tree);
ReadBoxConfig read_box_config(const boost::json::value& tree, const BoxConfig& current = {});

// The whole tree, secrets included; read_config() of it is the same configuration.
boost::json::object to_json(const Config& config);

// The tree with every absent field filled in, so that environment variables meet a field of the
// right type. A field that is there stays, even when it is null.
boost::json::value with_defaults(boost::json::value tree);

// A tree after "BOX__LOCAL__HOST_ROOT=/srv" and the like, and the names of the variables that
// changed it, for the log; their values may be secrets. Apply with_defaults() first.
struct Overridden {
  boost::json::value tree;
  std::vector<std::string> variables;
};
Overridden apply_environment(boost::json::value tree, const std::vector<std::string>& environment);

}  // namespace caisson::model
