#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/shell.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/action.h"
#include "cli/exec_options.h"
#include "cli/option.h"
#include "cli/process_client.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "model/managed_process.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

struct Request {
  DaemonOptions daemon;
  std::string session;
  std::string process{model::kDefaultProcessId};
  std::string signal;
  bool json = false;
};

std::string since(model::Timestamp moment) {
  const auto now = std::chrono::system_clock::now();
  return short_duration(std::chrono::duration_cast<std::chrono::seconds>(now - moment));
}

// "exit 7", "SIGKILL" or "out of memory"; "?" when nobody saw it end.
std::string end_text(const json::object& end) {
  if (end.at("oom").as_bool()) return "out of memory";
  if (const json::value& signal = end.at("signal"); !signal.is_null()) {
    return signal_text(signal.to_number<int>());
  }
  if (const json::value& code = end.at("exit_code"); !code.is_null()) {
    return str("exit ", code.to_number<int>());
  }
  return "?";
}

// How long it has been there, or how it ended and how long ago.
std::string time_text(const model::ManagedProcessInfo& info, const json::object& process) {
  if (!info.exited_at) return since(info.started_at);
  const json::object* end = process.at("last_end").if_object();
  return str(end != nullptr ? end_text(*end) : "?", ", ", since(*info.exited_at), " ago");
}

// As it could be typed.
std::string command_text(const model::ManagedProcessInfo& info) {
  std::vector<std::string> words{info.command};
  words.insert(words.end(), info.args.begin(), info.args.end());
  for (std::string& word : words) {
    if (word.empty() || word.find_first_of(" \t\n'\"\\$`*?;&|<>()#~!") != std::string::npos) {
      word = shell_quoted(word);
    }
  }
  return join(words, " ");
}

std::vector<std::string> row_of(const json::value& value) {
  const json::object& process = value.as_object();
  const model::ManagedProcessInfo info = model::read_managed_process_info(value);
  const auto pid = process.at("pid").to_number<std::int64_t>();
  return {info.session_id,
          info.process_id,
          std::string(to_string(info.status)),
          pid == 0 ? "-" : str(pid),
          str(process.at("restarts").to_number<std::uint64_t>()),
          time_text(info, process),
          command_text(info)};
}

Task<int> list(DaemonClient& client, const Request& request) {
  json::array sessions;
  if (request.session.empty()) {
    sessions = (co_await client.call("GET", "/v1/sessions")).as_array();
  } else {
    sessions.push_back(co_await client.call("GET", session_target(request.session)));
  }
  json::array processes;
  for (const json::value& session : sessions) {
    const std::string name(session.as_object().at("session_id").as_string());
    const json::value found =
        co_await client.call("GET", session_target(name, "/managed-processes"));
    for (const json::value& process : found.as_array()) processes.push_back(process);
  }
  if (request.json) {
    print(json::serialize(processes) + "\n");
    co_return 0;
  }
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"SESSION", "PROCESS", "STATUS", "PID", "RESTARTS", "UPTIME", "COMMAND"});
  for (const json::value& process : processes) rows.push_back(row_of(process));
  print(table_text(rows));
  co_return 0;
}

Task<int> send_signal(DaemonClient& client, const Request& request, int number) {
  const ProcessName name = process_name(request.session, request.process);
  const std::string body = json::serialize(json::object{{"signal", number}});
  const json::value process = co_await client.call("POST", process_target(name, "/signal"), body);
  if (process.as_object().at("status") == "exited") {
    throw Error(ErrorCode::managed_process_conflict,
                str("process ", printable(name.process), " of session ", printable(name.session),
                    " has ended: there is nothing to send ", signal_text(number), " to"));
  }
  if (request.json) print(process.as_object());
  co_return 0;
}

Task<int> stop(DaemonClient& client, const Request& request) {
  const ProcessName name = process_name(request.session, request.process);
  const json::value answer = co_await client.call("DELETE", process_target(name));
  if (request.json) print(answer.as_object());
  co_return 0;
}

int run_list(Request& request) {
  if (!request.session.empty()) request.session = session_name(request.session);
  return run_with_daemon(request.daemon,
                         [&](DaemonClient& client) { return list(client, request); });
}

// The id stands between the session and the signal, and may be left out.
int run_signal(Request& request) {
  if (request.signal.empty()) {
    if (request.process == model::kDefaultProcessId) {
      throw Error(ErrorCode::validation_error,
                  "signal: which one? As in: caisson signal SESSION [ID] TERM");
    }
    request.signal = std::exchange(request.process, std::string(model::kDefaultProcessId));
  }
  const int number = parse_signal(request.signal);
  return run_with_daemon(
      request.daemon, [&](DaemonClient& client) { return send_signal(client, request, number); });
}

int run_stop(Request& request) {
  return run_with_daemon(request.daemon,
                         [&](DaemonClient& client) { return stop(client, request); });
}

}  // namespace

void add_process_arguments(CLI::App& app, std::string& session, std::string& process) {
  app.add_option("SESSION", session, "The session")->required()->type_name("SESSION");
  app.add_option("ID", process, "The process (default: default)")->type_name("ID");
}

void add_processes(CLI::App& program, Invocation& invocation) {
  const auto request = std::make_shared<Request>();
  CLI::App& ps = add_action(program, "ps", "List the processes that were started in sessions",
                            request, run_list, invocation);
  ps.add_option("SESSION", request->session, "Those of this session only")->type_name("SESSION");
  ps.add_flag("--json", request->json, "Print one JSON array, or an error as a JSON object");
  CLI::App& signal = add_action(program, "signal", "Send a signal to a process and its group",
                                request, run_signal, invocation);
  add_process_arguments(signal, request->session, request->process);
  signal.add_option("SIGNAL", request->signal, "TERM, SIGTERM or 15")->type_name("SIGNAL");
  add_json(signal, request->json);
  CLI::App& stop =
      add_action(program, "stop", "End a process and forget it", request, run_stop, invocation);
  add_process_arguments(stop, request->session, request->process);
  add_json(stop, request->json);
}

}  // namespace caisson::cli
