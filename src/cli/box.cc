#include <CLI/App.hpp>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/option.h"
#include "cli/serve.h"

namespace caisson::cli {

namespace {

struct Request {
  ServeRequest serve;
  std::optional<std::string> control_port;
  std::optional<std::string> old_port;
  std::optional<std::string> mode;
};

// The oldest hosts name a port and expect standard input, unless they say otherwise.
ServeRequest plan(const Request& request) {
  ServeRequest serve = request.serve;
  serve.port = request.control_port ? request.control_port : request.old_port;
  if (request.mode && *request.mode != "stdio" && *request.mode != "ws") {
    throw Error(ErrorCode::validation_error,
                str("--mode: must be stdio or ws, not \"", printable(*request.mode), "\""));
  }
  const std::string mode = request.mode.value_or(request.old_port ? "stdio" : "ws");
  if (mode == "stdio") serve.stdio_control = true;
  serve.open_to_hosts = true;
  return serve;
}

constexpr const char* kFooter =
    R"(Takes the words of LangBot's `lbp box`, so that a host which starts its runtime itself needs only
another program name. The variables LANGBOT_BOX_CONFIG, LANGBOT_BOX_CONTROL_TOKEN and
LANGBOT_BOX_TRUSTED_INSTANCE_UUID are read. Without a control token only this host can connect.

Examples:
  caisson box --ws-control-port 5410
  caisson box -s --ws-control-port 5410
)";

}  // namespace

void add_box(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("box", "Run the daemon for a LangBot host");
  const auto request = std::make_shared<Request>();
  add_text(app, "--host", request->serve.host, "ADDRESS",
           "Listen here (default: every address with a control token, else 127.0.0.1)");
  app.add_flag("-s,--stdio-control", request->serve.stdio_control,
               "The host speaks by standard input and output, and the daemon ends with them");
  add_text(app, "--ws-control-port", request->control_port, "PORT", "Listen here (default: 5410)");
  add_text(app, "--port", request->old_port, "PORT", "The same, as the oldest hosts say it");
  add_text(app, "--mode", request->mode, "stdio|ws",
           "How the oldest hosts say --stdio-control (default: stdio with --port)");
  add_state(app, request->serve.state);
  add_text(app, "--config", request->serve.config, "PATH", "The file (default: as of serve)");
  app.footer(kFooter);
  app.callback([request, &invocation] {
    invocation.work = [request, &invocation] {
      return run_daemon(plan(*request), invocation.backends);
    };
  });
}

}  // namespace caisson::cli
