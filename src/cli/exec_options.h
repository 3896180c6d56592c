#pragma once
#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/settings.h"
#include "model/box_request.h"
#include "service/policy.h"

namespace caisson::cli {

// What `caisson exec` was told, as text.
struct ExecOptions {
  bool interactive = false;
  bool writable = false;
  std::vector<std::string> mounts;
  std::vector<std::string> env;
  std::optional<std::string> workspace;
  std::optional<std::string> network;
  std::optional<std::string> memory;
  std::optional<std::string> cpus;
  std::optional<std::string> pids;
  std::optional<std::string> timeout;
  std::optional<std::string> workdir;
  std::optional<std::string> image;
  std::optional<std::string> profile;
};

// The same, judged: a box, and how long the command may take in it.
struct ExecPlan {
  model::BoxRequest request;
  std::vector<std::string> overridden;  // fields that the profile decided against the caller
  std::optional<std::chrono::milliseconds> timeout;
};

// The box goes through the policy and the validation of every other way into Caisson; a fault that
// they find is told with the option in front. Relative host paths are below `cwd`. Without a
// timeout and without a profile the command may run for ever: somebody watches it.
ExecPlan plan_exec(const service::Policy& policy, const ExecOptions& options,
                   const std::filesystem::path& cwd, const Environment& environment);

// The same for a session of the daemon: the body of its exec, without the command. Fields that were
// not given are left out, so that a session which exists decides about them. A profile gives all.
struct SessionRequest {
  boost::json::object body;
  std::vector<std::string> overridden;
};
SessionRequest plan_session_exec(const ExecOptions& options, const std::filesystem::path& cwd,
                                 const Environment& environment);

// The same for the session itself: what is each command's own is left out.
SessionRequest plan_session(ExecOptions options, const std::filesystem::path& cwd,
                            const Environment& environment);

// A line for sh that runs this program with these arguments. It takes the place of the shell, so
// that signals and exit codes are the program's own.
std::string shell_command(const std::vector<std::string>& argv);

// "HOST:BOX", "HOST:BOX:ro", "HOST:BOX:rw". The host path may contain colons, the path in the box
// not: a mistyped mode would become a part of it, and the mount writable.
struct MountText {
  std::string host;
  std::string box;
  std::string mode;  // empty when not given
  bool operator==(const MountText&) const = default;
};
MountText parse_mount(std::string_view text);

// "HOST", "HOST:ro", "HOST:rw". A host path with a colon needs a mode behind it.
MountText parse_workspace(std::string_view text);

// "K=V", or "K" for the caller's value; nullopt when the caller has none.
std::optional<std::pair<std::string, std::string>> parse_env(std::string_view text,
                                                             const Environment& environment);

// "512", "512M" and "2G", in megabytes.
std::int64_t parse_megabytes(std::string_view text);

}  // namespace caisson::cli
