#include "cli/exec_options.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/shell.h"
#include "base/str.h"
#include "base/text.h"
#include "model/box_fields.h"
#include "model/profile.h"

namespace caisson::cli {

namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

[[noreturn]] void refuse(std::string_view option, std::string_view text, std::string_view fault) {
  throw Error(ErrorCode::validation_error, str(option, ": \"", printable(text), "\" ", fault));
}

// ":ro" or ":rw" at the end, taken off.
std::string take_mode(std::string_view& text) {
  for (const std::string_view mode : {"ro", "rw"}) {
    if (text.size() > 2 && text.ends_with(mode) && text[text.size() - 3] == ':') {
      text.remove_suffix(3);
      return std::string(mode);
    }
  }
  return {};
}

std::int64_t parse_whole(std::string_view option, std::string_view text) {
  const std::optional<long long> number = parse_integer(text);
  if (!number) refuse(option, text, "is not a whole number");
  return *number;
}

double parse_number(std::string_view option, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    refuse(option, text, "is not a number");
  }
  return number;
}

// A path of the caller; an empty one stays empty, for the validation to refuse.
std::string absolute(const fs::path& cwd, const std::string& path) {
  return path.empty() ? path : (cwd / path).native();
}

// The box as the request of a client would describe it.
json::object describe(const ExecOptions& options, const fs::path& cwd,
                      const Environment& environment) {
  json::object box{{"session_id", "exec"}};
  if (options.workspace) {
    const MountText workspace = parse_workspace(*options.workspace);
    box["host_path"] = absolute(cwd, workspace.host);
    if (!workspace.mode.empty()) box["host_path_mode"] = workspace.mode;
  }
  json::array mounts;
  for (const std::string& text : options.mounts) {
    const MountText mount = parse_mount(text);
    json::object entry{{"host_path", absolute(cwd, mount.host)}, {"mount_path", mount.box}};
    if (!mount.mode.empty()) entry["mode"] = mount.mode;
    mounts.push_back(std::move(entry));
  }
  if (!mounts.empty()) box["extra_mounts"] = std::move(mounts);
  json::object env;
  for (const std::string& text : options.env) {
    if (const auto pair = parse_env(text, environment)) env[pair->first] = pair->second;
  }
  box["env"] = std::move(env);
  if (options.network) box["network"] = *options.network;
  if (options.memory) box["memory_mb"] = parse_megabytes(*options.memory);
  if (options.cpus) box["cpus"] = parse_number("--cpus", *options.cpus);
  if (options.pids) box["pids_limit"] = parse_whole("--pids", *options.pids);
  if (options.workdir) box["workdir"] = *options.workdir;
  if (options.image) box["image"] = *options.image;
  if (options.writable) box["read_only_rootfs"] = false;
  return box;
}

// The sentences of the validation speak of fields; here they are known as options.
Error with_option(const Error& error) {
  const std::string_view sentence = error.what();
  std::string_view option;
  model::for_each_field([&](const auto& field) {
    if (option.empty() && sentence.starts_with(field.name)) option = field.option;
  });
  if (!option.empty()) return {error.code(), str(option, ": ", sentence)};
  return error;
}

}  // namespace

MountText parse_mount(std::string_view text) {
  constexpr std::string_view kOption = "--mount";
  std::string_view rest = text;
  MountText mount;
  mount.mode = take_mode(rest);
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    refuse(kOption, text, "must be HOST:BOX, HOST:BOX:ro or HOST:BOX:rw");
  }
  mount.host = rest.substr(0, colon);
  mount.box = rest.substr(colon + 1);
  if (!mount.box.starts_with('/')) {
    refuse(kOption, text,
           str("must be HOST:BOX, HOST:BOX:ro or HOST:BOX:rw; \"", printable(mount.box),
               "\" is neither a mode nor an absolute path in the box"));
  }
  return mount;
}

MountText parse_workspace(std::string_view text) {
  std::string_view rest = text;
  MountText workspace;
  workspace.mode = take_mode(rest);
  if (rest.empty()) refuse("--workspace", text, "must be HOST, HOST:ro or HOST:rw");
  if (workspace.mode.empty() && rest.find(':') != std::string_view::npos) {
    refuse("--workspace", text, "must end in :ro or :rw when it contains a colon");
  }
  workspace.host = rest;
  return workspace;
}

std::optional<std::pair<std::string, std::string>> parse_env(std::string_view text,
                                                             const Environment& environment) {
  const std::size_t equals = text.find('=');
  std::string name(text.substr(0, equals));
  if (name.empty()) refuse("--env", text, "must be NAME=VALUE or NAME");
  if (equals != std::string_view::npos)
    return {{std::move(name), std::string(text.substr(equals + 1))}};
  std::optional<std::string> value = environment(name);
  if (!value) return std::nullopt;
  return {{std::move(name), *std::move(value)}};
}

std::int64_t parse_megabytes(std::string_view text) {
  std::string_view digits = text;
  std::int64_t unit = 1;
  const std::string lower = to_lower(text);
  if (lower.ends_with('g')) unit = 1024;
  if (lower.ends_with('g') || lower.ends_with('m')) digits.remove_suffix(1);
  const std::optional<long long> number = parse_integer(digits);
  if (!number) {
    refuse("--memory", text, "is not a whole number of megabytes, such as 512, 512M or 2G");
  }
  // What no machine has is as good as the most that has a meaning, which the validation knows.
  return std::min<std::int64_t>(*number, model::kMaxMegabytes) * unit;
}

ExecPlan plan_exec(const service::Policy& policy, const ExecOptions& options, const fs::path& cwd,
                   const Environment& environment) {
  json::object box = describe(options, cwd, environment);
  std::optional<double> seconds;
  if (options.timeout) {
    seconds = std::min(parse_number("--timeout", *options.timeout),
                       static_cast<double>(model::kMaxTimeoutSec));
    // Clients speak of whole seconds. The fraction is ours, below what the profile allows.
    box["timeout_sec"] = static_cast<std::int64_t>(std::max(-1.0, std::ceil(*seconds)));
  }
  const service::Caller caller{.profile = options.profile};
  ExecPlan plan;
  try {
    model::BuiltRequest built = policy.apply(caller, std::move(box));
    plan.request = std::move(built.request);
    plan.overridden = std::move(built.overridden);
  } catch (const Error& error) {
    throw with_option(error);
  }
  // A time limit that nobody asked for is for callers that nobody watches.
  if (policy.limits_time(caller) || seconds) {
    const double allowed = static_cast<double>(plan.request.command.timeout_sec);
    const double limit = std::min(seconds.value_or(allowed), allowed);
    plan.timeout =
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(limit));
  }
  return plan;
}

SessionRequest plan_session_exec(const ExecOptions& options, const fs::path& cwd,
                                 const Environment& environment) {
  // What the operator decides is the daemon's to say.
  ExecPlan plan = plan_exec(service::Policy({}), options, cwd, environment);
  SessionRequest request{
      .body = options.profile ? model::to_json(plan.request) : describe(options, cwd, environment),
      .overridden = std::move(plan.overridden)};
  request.body.erase("session_id");
  request.body.erase("cmd");
  // The daemon's own timeout is for callers that nobody watches, and it counts whole seconds.
  request.body["timeout_sec"] =
      plan.timeout ? std::int64_t{std::chrono::ceil<std::chrono::seconds>(*plan.timeout).count()}
                   : model::kMaxTimeoutSec;
  return request;
}

SessionRequest plan_session(ExecOptions options, const fs::path& cwd,
                            const Environment& environment) {
  options.env.clear();
  options.workdir.reset();
  options.timeout.reset();
  SessionRequest request = plan_session_exec(options, cwd, environment);
  for (const char* field : {"env", "workdir", "timeout_sec"}) request.body.erase(field);
  return request;
}

std::string shell_command(const std::vector<std::string>& argv) {
  std::vector<std::string> words;
  // Not every shell knows "exec --", so a name that looks like an option goes without.
  if (!argv.empty() && !argv.front().starts_with('-')) words.emplace_back("exec");
  for (const std::string& word : argv) words.push_back(shell_quoted(word));
  return join(words, " ");
}

}  // namespace caisson::cli
