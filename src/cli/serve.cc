#include "cli/serve.h"

#include <unistd.h>

#include <CLI/App.hpp>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/load_config.h"
#include "cli/option.h"
#include "cli/settings.h"
#include "daemon/serve.h"
#include "service/box_configuration.h"

namespace caisson::cli {

namespace {

constexpr std::size_t kLeastSecret = 32;

std::string variable(const std::vector<std::string>& environment, std::string_view name) {
  const std::string prefix = str(name, "=");
  for (const std::string& entry : environment) {
    if (entry.starts_with(prefix)) return std::string(trim(entry.substr(prefix.size())));
  }
  return {};
}

// A control token says that being a user of this host is not enough.
void close_port(model::DaemonConfig& daemon) {
  if (daemon.token_required == false) {
    throw Error(
        ErrorCode::validation_error,
        "LANGBOT_BOX_CONTROL_TOKEN is set, and caisson.token_required is false: hosts would "
        "need a token and everybody else on this host none. Remove one of the two");
  }
  daemon.token_required = true;
}

}  // namespace

daemon::LangbotOptions langbot_options(const std::vector<std::string>& environment) {
  daemon::LangbotOptions options{
      .control_token = variable(environment, "LANGBOT_BOX_CONTROL_TOKEN"),
      .trusted_instance = variable(environment, "LANGBOT_BOX_TRUSTED_INSTANCE_UUID")};
  const std::string& token = options.control_token;
  const bool blank = token.find_first_of(" \t\r\n\v\f") != std::string::npos;
  if (!token.empty() && (token.size() < kLeastSecret || blank)) {
    throw Error(ErrorCode::validation_error,
                str("LANGBOT_BOX_CONTROL_TOKEN must be a non-whitespace secret of at least ",
                    kLeastSecret, " characters"));
  }
  const std::string unsafe =
      to_lower(variable(environment, "LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS"));
  options.unsafe_soft_limits =
      unsafe == "1" || unsafe == "true" || unsafe == "yes" || unsafe == "on";
  return options;
}

int run_daemon(const ServeRequest& request, const std::vector<BackendKind>& backends) {
  const bool is_root = ::geteuid() == 0;
  const std::vector<std::string> environment = environment_entries();
  LoadedConfig loaded =
      load_config(find_config_file(request.config, environment, is_root), environment);
  model::DaemonConfig& daemon = loaded.config.daemon;
  daemon::LangbotOptions langbot = langbot_options(environment);
  langbot.stdio_control = request.stdio_control;
  if (!langbot.control_token.empty()) close_port(daemon);
  if (request.open_to_hosts && !langbot.control_token.empty()) daemon.listen_host = "0.0.0.0";
  if (request.host) daemon.listen_host = *request.host;
  if (request.port) {
    const auto port = parse_integer(*request.port);
    if (!port || *port < 0 || *port > 65535) {
      throw Error(ErrorCode::validation_error, "--port: must be a number between 0 and 65535");
    }
    daemon.listen_port = *port;
  }
  log::configure(daemon.log_level, daemon.log_format, STDERR_FILENO);
  if (loaded.file) log::info("configuration read", "file", loaded.file->native());
  for (const std::string& name : loaded.variables) {
    log::info("configuration changed by the environment", "variable", name);
  }
  for (const std::string& field : loaded.config.ignored_fields) {
    log::warning("configuration field ignored", "field", field);
  }
  const std::filesystem::path state =
      state_directory(request.state, process_environment(), is_root, daemon.state_dir);
  const BackendOptions backend_options{
      .state_dir = state,
      .allow_missing = loaded.config.box.native.allow_missing,
      .mount_roots = service::resolved_roots(loaded.config.box.local.mount_roots()),
      .name = loaded.config.box.native.answer_as,
      .many_boxes = true};
  const BackendKind& kind = get_backend(backends, "native");
  daemon::ServeOptions options{.config = std::move(loaded.config),
                               .state_dir = state,
                               .socket = common_socket(),
                               .version = version_number(),
                               .langbot = std::move(langbot),
                               .replace = request.replace};
  const auto make = [&](const boost::asio::any_io_executor& executor, backend::Keeper* keeper,
                        backend::KeptEntries& kept) {
    BackendOptions with_keeper = backend_options;
    with_keeper.keeper = keeper;
    if (const auto found = kept.find(kind.name); found != kept.end()) {
      with_keeper.inherited = std::make_shared<backend::KeptEntry>(std::move(found->second));
      kept.erase(found);
    }
    return kind.make(executor, std::move(with_keeper));
  };
  return daemon::serve(std::move(options), make);
}

void add_serve(CLI::App& program, Invocation& invocation) {
  CLI::App& serve = *program.add_subcommand("serve", "Run the daemon: sessions that live on");
  const auto request = std::make_shared<ServeRequest>();
  add_text(serve, "--host", request->host, "ADDRESS", "Listen here (default: 127.0.0.1)");
  add_text(serve, "--port", request->port, "PORT", "Listen here (default: 5410)");
  add_state(serve, request->state);
  add_text(serve, "--config", request->config, "PATH",
           "The file (default: /etc/caisson/caisson.yaml for root and "
           "~/.config/caisson/caisson.yaml for others, if it is there)");
  serve.add_flag("--stdio-control", request->stdio_control,
                 "A LangBot host speaks by standard input and output, and the daemon ends with "
                 "them");
  serve.add_flag(
      "--replace", request->replace,
      "Take the place of the daemon that runs on this state directory: its sessions and\n"
      "processes go on");
  serve.footer(
      "Ends with SIGTERM or SIGINT, after the requests at work; caisson.on_stop says whether its\n"
      "boxes end with it. A second signal ends it at once. Listening on another address than\n"
      "loopback needs the token in the state directory with every request.\n");
  serve.callback([request, &invocation] {
    invocation.work = [request, &invocation] { return run_daemon(*request, invocation.backends); };
  });
}

}  // namespace caisson::cli
