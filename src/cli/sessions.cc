#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/action.h"
#include "cli/option.h"
#include "cli/report.h"
#include "cli/table.h"
#include "model/session_info.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

struct Request {
  DaemonOptions daemon;
  std::vector<std::string> names;
  std::string name;
  bool names_only = false;
  bool all = false;
  bool json = false;
};

// How long ago; "-" for a moment that the daemon does not know.
std::string since(model::Timestamp moment) {
  if (moment == model::Timestamp{}) return "-";
  const auto now = std::chrono::system_clock::now();
  return short_duration(std::chrono::duration_cast<std::chrono::seconds>(now - moment));
}

std::vector<std::string> row_of(const json::value& session) {
  const model::SessionInfo info = model::read_session_info(session);
  const json::object& object = session.as_object();
  return {info.session_id,
          std::string(object.at("state").as_string()),
          str(object.at("execs").to_number<std::uint64_t>()),
          since(info.created_at),
          since(info.last_used_at),
          str(info.box.memory_mb, " MB"),
          std::string(to_string(info.box.network)),
          info.box.image};
}

// As people read it: a field a line, indented.
std::string pretty(const json::value& value, std::size_t depth = 0) {
  const std::string margin(2 * depth + 2, ' ');
  std::string inside;
  const auto add = [&](const std::string& text) {
    inside += str(inside.empty() ? "" : ",", "\n", margin, text);
  };
  if (const json::object* object = value.if_object(); object != nullptr && !object->empty()) {
    for (const auto& [name, field] : *object) {
      add(str(json::serialize(name), ": ", pretty(field, depth + 1)));
    }
    return str("{", inside, "\n", margin.substr(2), "}");
  }
  if (const json::array* array = value.if_array(); array != nullptr && !array->empty()) {
    for (const json::value& element : *array) add(pretty(element, depth + 1));
    return str("[", inside, "\n", margin.substr(2), "]");
  }
  if (value.is_double()) {  // "1" rather than "1E0"
    char text[32];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value.get_double());
    if (error == std::errc()) return {text, end};
  }
  return json::serialize(value);
}

Task<int> list(DaemonClient& client, const Request& request) {
  const json::value sessions = co_await client.call("GET", "/v1/sessions");
  if (request.json) {
    print(json::serialize(sessions) + "\n");
    co_return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const json::value& session : sessions.as_array()) rows.push_back(row_of(session));
  if (request.names_only) {
    for (const auto& row : rows) print(str(printable(row.front()), "\n"));
    co_return 0;
  }
  rows.insert(rows.begin(),
              {"NAME", "STATE", "EXECS", "AGE", "IDLE", "MEMORY", "NETWORK", "IMAGE"});
  print(table_text(rows));
  co_return 0;
}

Task<int> inspect(DaemonClient& client, const Request& request) {
  const json::value session = co_await client.call("GET", session_target(request.name));
  print(pretty(session) + "\n");
  co_return 0;
}

Task<int> remove_all(DaemonClient& client, const Request& request, std::vector<std::string> names) {
  json::array removed;
  for (const std::string& name : names) {
    try {
      co_await client.call("DELETE", session_target(name));
    } catch (const Error& error) {
      // All of them are to be gone, and this one is.
      if (!request.all || error.code() != ErrorCode::session_not_found) throw;
      continue;
    }
    removed.emplace_back(name);
    if (!request.json) print(str("removed ", printable(name), "\n"));
  }
  if (request.json) print({{"removed", std::move(removed)}});
  co_return 0;
}

Task<int> remove(DaemonClient& client, const Request& request) {
  std::vector<std::string> names = request.names;
  // A mistyped name is found before anything is gone.
  for (const std::string& name : names) co_await client.call("GET", session_target(name));
  if (request.all) {
    const json::value sessions = co_await client.call("GET", "/v1/sessions");
    for (const json::value& session : sessions.as_array()) {
      names.emplace_back(session.as_object().at("session_id").as_string());
    }
  }
  co_return co_await remove_all(client, request, std::move(names));
}

int run_list(Request& request) {
  return run_with_daemon(request.daemon,
                         [&](DaemonClient& client) { return list(client, request); });
}

int run_inspect(Request& request) {
  request.name = session_name(request.name);
  return run_with_daemon(request.daemon,
                         [&](DaemonClient& client) { return inspect(client, request); });
}

int run_remove(Request& request) {
  if (request.all == !request.names.empty()) {
    throw Error(ErrorCode::validation_error,
                "rm: name the sessions to remove, or say --all; see caisson rm --help");
  }
  for (std::string& name : request.names) name = session_name(name);
  return run_with_daemon(request.daemon,
                         [&](DaemonClient& client) { return remove(client, request); });
}

}  // namespace

void add_sessions(CLI::App& program, Invocation& invocation) {
  const auto request = std::make_shared<Request>();
  CLI::App& ls =
      add_action(program, "ls", "List the daemon's sessions", request, run_list, invocation);
  ls.add_flag("-q,--quiet", request->names_only, "Print the names only");
  ls.add_flag("--json", request->json, "Print one JSON array, or an error as a JSON object");
  CLI::App& inspect = add_action(program, "inspect", "Print all that is known about a session",
                                 request, run_inspect, invocation);
  inspect.add_option("NAME", request->name, "The session")->required()->type_name("SESSION");
  inspect.add_flag("--json", request->json, "Print errors as JSON, too; the session always is");
  CLI::App& rm = add_action(program, "rm", "End sessions and all that runs in them", request,
                            run_remove, invocation);
  rm.add_option("NAME", request->names, "The sessions to remove")->type_name("SESSION");
  rm.add_flag("--all", request->all, "Remove every session there is");
  add_json(rm, request->json);
}

}  // namespace caisson::cli
