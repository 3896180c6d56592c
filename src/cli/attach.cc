#include <CLI/App.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <utility>

#include "cli/attached.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/option.h"
#include "cli/process_client.h"
#include "cli/process_options.h"
#include "cli/report.h"
#include "model/managed_process.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

struct Request {
  DaemonOptions daemon;
  std::string session;
  std::string process{model::kDefaultProcessId};
  std::optional<std::string> from;
  bool takeover = false;
  bool no_input = false;
};

Task<int> run(DaemonClient& client, Attachment attachment) {
  const json::value found = co_await client.call("GET", process_target(attachment.name));
  const json::object& process = found.as_object();
  if (process.at("attached").as_bool() && !attachment.takeover) {
    note("another client is attached; it is waited for, and --takeover sends it away");
  }
  // Who was there before has got the others, and nobody counted how many.
  attachment.err_from = process.at("stderr").as_object().at("end").to_number<std::uint64_t>();
  co_return co_await attach(client, std::move(attachment));
}

int run_attach(const Request& request) {
  Attachment attachment{.daemon = {},
                        .name = process_name(request.session, request.process),
                        .takeover = request.takeover,
                        .input = !request.no_input,
                        .detach_keys = true,
                        .from = {},
                        .err_from = {}};
  if (request.from) attachment.from = parse_offset("--from", *request.from);
  attachment.daemon = find_daemon(request.daemon);
  DaemonPlace place = attachment.daemon;
  return run_with_daemon(std::move(place),
                         [&](DaemonClient& client) { return run(client, std::move(attachment)); });
}

constexpr const char* kFooter =
    R"(Standard input, output and error are those of the process until it ends; the exit code is its own, or
128+N when signal N ended it. Output begins where the last client left off. The end of standard input
is the end of the process's input.

Control-C is sent to the process. SIGTERM, SIGHUP and Control-\ end this program only. At a process
with a terminal every key is sent, and Control-P Control-Q detaches.
)";

}  // namespace

void add_attach(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("attach", "Take the place at a process's streams");
  const auto request = std::make_shared<Request>();
  add_process_arguments(app, request->session, request->process);
  app.add_flag("--takeover", request->takeover,
               "Send away who is attached, rather than wait until they go");
  add_text(app, "--from", request->from, "OFFSET", "Begin at this byte of its standard output");
  app.add_flag("--no-stdin", request->no_input, "Leave its input alone");
  add_daemon_options(app, request->daemon);
  app.footer(kFooter);
  app.callback(
      [request, &invocation] { invocation.work = [request] { return run_attach(*request); }; });
}

}  // namespace caisson::cli
