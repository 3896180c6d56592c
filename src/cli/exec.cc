#include <unistd.h>

#include <CLI/App.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json/array.hpp>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

#include "backend/run.h"
#include "base/error.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/exec_options.h"
#include "cli/exec_terminal.h"
#include "cli/load_config.h"
#include "cli/one_shot.h"
#include "cli/option.h"
#include "cli/report.h"
#include "cli/session_exec.h"
#include "model/exec.h"
#include "model/profile.h"

namespace caisson::cli {

namespace {

namespace asio = boost::asio;
namespace json = boost::json;

struct Request {
  ExecOptions options;
  std::optional<std::string> backend;
  std::optional<std::string> state;
  std::vector<std::string> allow_missing;
  std::optional<std::string> session;
  std::optional<std::string> url;
  std::optional<std::string> request_id;
  bool keep_session = false;
  bool tty = false;
  bool json = false;
  bool quiet = false;
};

// What came out of it, and where it went.
struct Finished {
  OneShotOutcome outcome;
  Capture out;  // with --json
  Capture err;
  int out_error = 0;  // of writing to our own standard streams
  int err_error = 0;
};

std::string seconds_text(std::chrono::milliseconds time) {
  char text[32];
  const double seconds = std::chrono::duration<double>(time).count();
  const auto [end, error] = std::to_chars(text, text + sizeof text, seconds);
  return error == std::errc() ? std::string(text, end) : "?";
}

std::string layer_sentence(const model::LayerReport& layer) {
  return str("isolation layer ", to_string(layer.layer), " is ", to_string(layer.state), ": ",
             layer.detail, layer.fix.empty() ? "" : "; to fix it: ", layer.fix);
}

int exit_code_of(const OneShotOutcome& outcome) {
  if (outcome.interrupted != 0) return kExitSignalBase + outcome.interrupted;
  if (outcome.timed_out) return kExitTimeout;
  if (outcome.exit.signal != 0) return kExitSignalBase + outcome.exit.signal;
  return outcome.exit.exit_code;
}

// What the exit code alone does not tell.
void explain(const OneShotOutcome& outcome, const ExecPlan& plan) {
  if (outcome.interrupted != 0) {
    return say(str("ended by signal ", outcome.interrupted, ", and the box with it"));
  }
  if (outcome.timed_out) {
    return say(str("the command timed out after ",
                   seconds_text(plan.timeout.value_or(std::chrono::milliseconds(0))),
                   " s and was killed"));
  }
  if (outcome.exit.oom_kills == 0) return;
  const std::string limit = str("the box ran out of memory: its limit is ",
                                plan.request.box.memory_mb, " MB; give it more with --memory");
  if (outcome.exit.signal == SIGKILL) return say(str("the command was killed because ", limit));
  say(str("a process of the command was killed because ", limit));
}

json::object to_json(const Finished& finished, const ExecPlan& plan, std::string_view backend) {
  const OneShotOutcome& outcome = finished.outcome;
  model::ExecResult result;
  result.session_id = plan.request.session_id;
  result.backend_name = backend;
  result.status = outcome.timed_out ? model::ExecStatus::timed_out : model::ExecStatus::completed;
  if (!outcome.timed_out) result.exit_code = exit_code_of(outcome);
  result.out = decode_utf8(finished.out.data);
  result.err = decode_utf8(finished.err.data);
  result.stdout_discarded = static_cast<std::int64_t>(finished.out.discarded);
  result.stderr_discarded = static_cast<std::int64_t>(finished.err.discarded);
  result.duration_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(outcome.duration).count();
  if (outcome.interrupted != 0) result.signal = outcome.interrupted;
  const backend::ProcessExit& exit = outcome.exit;
  if (exit.signal != 0) result.signal = exit.signal;
  result.oom = exit.oom_kills > 0;
  if (result.oom) result.oom_limit_mb = plan.request.box.memory_mb;
  result.cpu_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(exit.user_time + exit.system_time)
          .count();
  result.peak_memory_bytes = static_cast<std::int64_t>(exit.peak_memory_bytes);
  json::object object = model::to_json(result);
  object["weaker_layers"] = model::to_json(model::IsolationReport{outcome.isolation.weaker()});
  json::array overridden;
  for (const std::string& field : plan.overridden) overridden.emplace_back(field);
  object["overridden"] = std::move(overridden);
  return object;
}

Task<void> run_and_stop(backend::Backend& backend, OneShot request, Finished& finished) {
  std::exception_ptr failure;
  try {
    finished.outcome = co_await run_one_shot(backend, std::move(request));
  } catch (...) {
    failure = std::current_exception();
  }
  co_await backend.stop();
  if (failure) std::rethrow_exception(failure);
}

OneShot one_shot(const Request& request, const ExecPlan& plan, std::vector<std::string> command,
                 Finished& finished) {
  OneShot shot{.box = plan.request.box,
               .workdir = plan.request.command.workdir,
               .argv = std::move(command),
               .env = backend::environment_with(plan.request.command.env),
               .timeout = plan.timeout};
  if (request.options.interactive) shot.input = STDIN_FILENO;
  if (request.json) {
    const auto into = [](Capture& capture) {
      return [&capture](std::string_view bytes) {
        capture.add(bytes);
        return true;
      };
    };
    shot.out = into(finished.out);
    shot.err = into(finished.err);
    return shot;
  }
  shot.out = FdSink{STDOUT_FILENO, finished.out_error};
  shot.err = FdSink{STDERR_FILENO, finished.err_error};
  if (!request.quiet) {
    shot.on_ready = [](const model::IsolationReport& report) {
      for (const model::LayerReport& layer : report.weaker()) note(layer_sentence(layer));
    };
  }
  return shot;
}

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::validation_error, sentence);
}

void note_profile(const Request& request, const service::Policy& policy,
                  const std::vector<std::string>& overridden) {
  if (request.json || request.quiet) return;
  note_overridden(policy.profile_name({.profile = request.options.profile}), overridden);
}

// Options that make sense only on one side of -s.
void check_session_options(const Request& request) {
  if (!request.session) {
    if (request.url) refuse("--url: names a daemon, and only -s NAME needs one");
    if (request.keep_session) refuse("--keep-session: there is no session; name one with -s");
    if (request.tty) refuse("-t: there are terminals in sessions only; name one with -s");
    if (request.request_id) refuse("--request-id: only a session knows ids; name one with -s");
    return;
  }
  if (request.request_id) model::check_request_id(*request.request_id, "--request-id");
  if (request.backend) refuse("--backend: the daemon decides about it, not exec -s");
  if (!request.allow_missing.empty()) {
    refuse(
        "--allow-missing: the daemon decides about it: box.native.allow_missing in its "
        "configuration");
  }
}

// A terminal is for somebody who sits there: what is for programs has no meaning.
void check_terminal_options(const Request& request) {
  if (request.json) refuse("--json: the output of a command with a terminal is not collected");
  if (request.options.timeout) refuse("--timeout: a command with a terminal has none");
  if (request.keep_session) refuse("--keep-session: a command with a terminal has no timeout");
  if (request.request_id) refuse("--request-id: a command with a terminal cannot be asked again");
  if (request.options.interactive && ::isatty(STDIN_FILENO) == 0) {
    refuse("-t: standard input is no terminal; leave -t away");
  }
}

int exec_on_terminal(const Request& request, DaemonPlace daemon,
                     const std::vector<std::string>& command) {
  check_terminal_options(request);
  TerminalExec exec{.daemon = std::move(daemon),
                    .session = session_name(*request.session),
                    .settings = plan_session(request.options, std::filesystem::current_path(),
                                             process_environment()),
                    .options = request.options,
                    .command = command};
  note_profile(request, service::Policy({}), exec.settings.overridden);
  return run_on_terminal(std::move(exec));
}

int exec_in_session(const Request& request, const std::vector<std::string>& command) {
  const Environment environment = process_environment();
  SessionExec exec{.session = session_name(*request.session), .json = request.json};
  const DaemonOptions options{.url = request.url, .state = request.state};
  exec.daemon = find_daemon(options, environment, ::geteuid() == 0);
  exec.daemon.alternative = ", or leave -s away to run the command in a box of its own";
  if (request.tty) return exec_on_terminal(request, std::move(exec.daemon), command);
  SessionRequest planned =
      plan_session_exec(request.options, std::filesystem::current_path(), environment);
  note_profile(request, service::Policy({}), planned.overridden);
  exec.request = std::move(planned.body);
  exec.request["cmd"] = shell_command(command);
  if (request.keep_session) {
    exec.request["on_timeout"] = to_string(model::OnTimeout::end_command);
  }
  if (request.options.interactive) exec.request["stdin"] = read_input();
  if (request.request_id) exec.request["request_id"] = *request.request_id;
  return run_in_session(std::move(exec));
}

int run_exec(const Request& request, const Invocation& invocation) {
  if (!invocation.has_command || invocation.command.empty()) {
    refuse("exec: there is no command; write it behind --, as in: caisson exec -- ls -l");
  }
  check_session_options(request);
  if (request.session) return exec_in_session(request, invocation.command);
  const Environment environment = process_environment();
  const BackendKind& kind =
      get_backend(invocation.backends, request.backend.value_or(invocation.backends.front().name));
  BackendOptions options{.state_dir = state_directory(request.state, environment, ::geteuid() == 0),
                         .allow_missing = allowed_missing(request.allow_missing, environment)};
  const std::vector<std::string> entries = environment_entries();
  const LoadedConfig loaded =
      load_config(find_config_file(std::nullopt, entries, ::geteuid() == 0), entries);
  const service::Policy policy(loaded.config.box);
  const ExecPlan plan =
      plan_exec(policy, request.options, std::filesystem::current_path(), environment);
  note_profile(request, policy, plan.overridden);

  asio::io_context io(1);
  const std::unique_ptr<backend::Backend> backend =
      kind.make(io.get_executor(), std::move(options));
  Finished finished;
  std::exception_ptr failure;
  OneShot shot = one_shot(request, plan, invocation.command, finished);
  const auto done = [&](const std::exception_ptr& error) {
    failure = error;
    // A copy that is stuck would keep the loop for ever.
    if (!finished.outcome.output_complete) io.stop();
  };
  asio::co_spawn(io, run_and_stop(*backend, std::move(shot), finished), done);
  io.run();
  if (failure) std::rethrow_exception(failure);

  const int code = exit_code_of(finished.outcome);
  // Nobody reads our output, and somebody wants us to end: there is a thread that cannot be joined.
  if (!finished.outcome.output_complete) std::_Exit(code);
  if (request.json) {
    print(to_json(finished, plan, kind.name));
    return code;
  }
  if (finished.out_error != 0) throw SystemError("standard output", finished.out_error);
  if (finished.err_error != 0) throw SystemError("standard error", finished.err_error);
  explain(finished.outcome, plan);
  return code;
}

constexpr const char* kFooter = R"(The exit code is the command's own, or
  124      it ran into --timeout
  125      caisson itself failed
  126      the command cannot be executed
  127      the command was not found in the box
  128+N    signal N ended it; 137 with a sentence on standard error: out of memory

Examples:
  caisson exec -- python3 -c 'print(6 * 7)'
  caisson exec --workspace . -- make test
  caisson exec -i -- tar x < archive.tar
  caisson exec --network on --workspace . -- pip install --target vendor requests
  caisson exec -s build --workspace . -- make
  caisson exec -s build --request-id release-7 -- ./publish
  caisson exec -it -s build -- bash

With -s the command runs in a session of the daemon, which is made if there is none; a session
that exists keeps its settings. Output goes through the daemon as text. With -i all of standard
input is read first and then passed on, up to 16 MB of text. Control-C ends the command; one with
a --request-id goes on, and the same line again waits for it.
)";

}  // namespace

void add_exec(CLI::App& program, Invocation& invocation) {
  CLI::App& app =
      *program.add_subcommand("exec", "Run a command in a box of its own, or in a session");
  const auto request = std::make_shared<Request>();
  ExecOptions& options = request->options;
  add_text(app, "-s,--session", request->session, "SESSION",
           "Run it in this session of the daemon, which keeps the box for the next command");
  app.add_flag("-i,--interactive", options.interactive,
               "Pass standard input on; without, the command reads nothing");
  app.add_flag("-t,--tty", request->tty,
               "With -s: give the command a terminal; -it makes it yours, as with ssh -t");
  add_list(app, "-e,--env", options.env, "NAME[=VALUE]",
           "Set a variable; without a value, take yours (repeatable)");
  add_text(app, "-w,--workdir", options.workdir, "DIR",
           "Directory in the box to start in (default /workspace)");
  add_box_options(app, options);
  add_text(app, "--memory", options.memory, "MB", "Memory limit, e.g. 512 or 2G (default 512)");
  add_text(app, "--timeout", options.timeout, "S",
           "Kill the command after so many seconds, fractions allowed (default: never)");
  add_text(app, "--backend", request->backend, "NAME", "What makes the box (default native)");
  add_allow_missing(app, request->allow_missing);
  add_state(app, request->state);
  app.add_flag("--keep-session", request->keep_session,
               "With -s: a timeout ends the command only, not the session");
  add_text(app, "--request-id", request->request_id, "KEY",
           "With -s: run it once for this id, and give its result to whoever asks again");
  add_url(app, request->url);
  app.add_flag("-q,--quiet", request->quiet, "No notes about weaker isolation");
  add_json(app, request->json);
  app.footer(kFooter);
  app.callback([request, &invocation] {
    invocation.work = [request, &invocation] { return run_exec(*request, invocation); };
  });
}

}  // namespace caisson::cli
