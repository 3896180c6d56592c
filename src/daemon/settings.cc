#include "daemon/settings.h"

#include <utility>

namespace caisson::daemon {

namespace {

constexpr std::size_t kPooledKinds = 2;

}  // namespace

session::Settings session_settings(const model::Config& config, std::size_t descriptors) {
  const model::DaemonConfig& daemon = config.daemon;
  const auto seconds = [](std::int64_t count) { return std::chrono::seconds(count); };
  return {.max_sessions = static_cast<std::size_t>(config.box.limits.max_sessions),
          .ttl = seconds(daemon.session_ttl_sec),
          .persistent_idle_limit = seconds(daemon.persistent_idle_limit_sec),
          .max_output_bytes = static_cast<std::size_t>(daemon.max_output_bytes),
          .max_command_bytes = static_cast<std::size_t>(daemon.max_command_bytes),
          .pooled_kinds = daemon.pools ? kPooledKinds : 0,
          .park_shells = daemon.pools,
          .parked_shell_idle = seconds(daemon.shell_idle_sec),
          .scarce_descriptor = descriptors / 4 * 3};
}

session::ExecutionSettings execution_settings(const model::DaemonConfig& daemon) {
  return {.ttl = std::chrono::seconds(daemon.request_id_ttl_sec),
          .max_count = static_cast<std::size_t>(daemon.max_request_ids),
          .max_bytes = static_cast<std::size_t>(daemon.max_request_id_bytes)};
}

session::ProcessSettings process_settings(const model::Limits& limits) {
  return {.max_running = static_cast<std::size_t>(limits.max_managed_processes),
          .max_ended = static_cast<std::size_t>(limits.max_completed_processes),
          .retention = std::chrono::seconds(limits.completed_process_retention_sec)};
}

api::rpc::RuntimeSettings runtime_settings(const ServeOptions& options, const StateDir& state,
                                           std::string token, Storage& storage) {
  const model::DaemonConfig& daemon = options.config.daemon;
  api::rpc::RuntimeSettings settings{.door = {.control_token = options.langbot.control_token,
                                              .daemon_token = std::move(token),
                                              .token_required = model::needs_token(daemon),
                                              .trusted_instance = options.langbot.trusted_instance,
                                              .legacy = daemon.langbot.legacy},
                                     .accepts_mount_roots = daemon.langbot.accept_mount_roots,
                                     .directory = state.path(),
                                     .limit_storage = {},
                                     .skill_quota_mb = daemon.langbot.skill_quota_mb};
  // Where the operator accepts storage that nothing binds, none is.
  if (options.langbot.unsafe_soft_limits) return settings;
  settings.limit_storage = [&storage](std::filesystem::path directory, std::int64_t megabytes) {
    return storage.limit(std::move(directory), megabytes);
  };
  return settings;
}

}  // namespace caisson::daemon
