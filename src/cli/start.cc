#include <CLI/App.hpp>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/exec_options.h"
#include "cli/option.h"
#include "cli/process_client.h"
#include "cli/process_options.h"
#include "cli/raw_terminal.h"
#include "cli/report.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

struct Request {
  DaemonOptions daemon;
  std::string session;
  ProcessOptions process;
  ExecOptions box;  // of the session
  bool json = false;
};

ProcessStart plan(const Request& request, const std::vector<std::string>& command) {
  const Environment environment = process_environment();
  ProcessStart start{.session = session_name(request.session), .settings = {}, .process = {}};
  if (request.process.id) process_name(request.session, *request.process.id);  // or throws
  SessionRequest planned = plan_session(request.box, std::filesystem::current_path(), environment);
  if (!request.json) note_overridden(request.box.profile.value_or(""), planned.overridden);
  start.settings = std::move(planned.body);
  start.process = plan_process(request.process, command, environment);
  if (request.process.tty) set_size(start.process, terminal_size());
  return start;
}

Task<int> run(DaemonClient& client, ProcessStart start, bool as_json) {
  const json::object process = co_await start_process(client, std::move(start));
  if (as_json) {
    print(process);
  } else {
    print(str(std::string_view(process.at("process_id").as_string()), "\n"));
  }
  co_return 0;
}

int run_start(const Request& request, const Invocation& invocation) {
  if (!invocation.has_command || invocation.command.empty()) {
    throw Error(ErrorCode::validation_error,
                "start: there is no command; write it behind --, as in: caisson start -s web -- "
                "python3 -m http.server");
  }
  ProcessStart start = plan(request, invocation.command);
  return run_with_daemon(request.daemon, [&](DaemonClient& client) {
    return run(client, std::move(start), request.json);
  });
}

constexpr const char* kFooter =
    R"(Prints the id of the process, which goes on by itself: when this program has ended, and also when the
daemon is killed and started again. One of the same id that runs is stopped first.

Examples:
  caisson start -s dev -- python3 -m http.server
  caisson start -s dev --id db --restart on-failure --memory 1G -- ./database
  caisson logs -f dev db
)";

}  // namespace

void add_start(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("start", "Start a process that goes on, in a session");
  const auto request = std::make_shared<Request>();
  ProcessOptions& process = request->process;
  app.add_option("-s,--session", request->session, "The session; made if there is none")
      ->required()
      ->type_name("SESSION");
  add_text(app, "--id", process.id, "ID", "What it is called in the session (default: default)");
  add_list(app, "-e,--env", process.env, "NAME[=VALUE]",
           "Set a variable; without a value, take yours (repeatable)");
  add_text(app, "-w,--workdir", process.workdir, "DIR",
           "Directory in the box to start in (default /workspace)");
  add_text(app, "--memory", process.memory, "MB",
           "Memory of its own, e.g. 512 or 2G (default: the session's)");
  add_text(app, "--restart", process.restart, "never|on-failure|always",
           "Whether to start it again when it has ended (default never)");
  app.add_flag("--hold", process.hold,
               "Let it wait when nobody takes its output, rather than forget the oldest");
  add_text(app, "--journal", process.journal, "SIZE",
           "How much of each output stream is kept, from 1M to 1G (default 16M)");
  app.add_flag("-t,--tty", process.tty, "Give it a terminal");
  add_box_options(app, request->box);
  add_daemon_options(app, request->daemon);
  add_json(app, request->json);
  app.footer(kFooter);
  app.callback([request, &invocation] {
    invocation.work = [request, &invocation] { return run_start(*request, invocation); };
  });
}

}  // namespace caisson::cli
