#include <CLI/App.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <utility>

#include "base/str.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/report.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

struct Request {
  DaemonOptions daemon;
  std::vector<std::string> names;
  bool json = false;
};

std::uint64_t number_of(const json::object& usage, std::string_view name) {
  return usage.at(name).to_number<std::uint64_t>();
}

std::vector<std::string> row_of(const json::value& value) {
  const json::object& usage = value.as_object();
  const auto bytes = [&](std::string_view name) { return human_bytes(number_of(usage, name)); };
  const std::uint64_t tenths = number_of(usage, "cpu_ms") / 100;
  return {std::string(usage.at("session_id").as_string()),
          bytes("memory_bytes"),
          bytes("peak_memory_bytes"),
          bytes("memory_limit_bytes"),
          str(number_of(usage, "processes"), "/", number_of(usage, "processes_limit")),
          str(tenths / 10, ".", tenths % 10, "s"),
          str(number_of(usage, "oom_kills"))};
}

// Sessions that have a box: the others use nothing.
Task<std::vector<std::string>> names_with_box(DaemonClient& client) {
  const json::value sessions = co_await client.call("GET", "/v1/sessions");
  std::vector<std::string> names;
  for (const json::value& session : sessions.as_array()) {
    const json::object& object = session.as_object();
    if (object.at("state") != "dead") names.emplace_back(object.at("session_id").as_string());
  }
  co_return names;
}

Task<int> stats(DaemonClient& client, const Request& request) {
  const bool all = request.names.empty();
  std::vector<std::string> names = request.names;
  if (all) names = co_await names_with_box(client);
  json::array usages;
  for (const std::string& name : names) {
    const std::string target = session_target(name, "/usage");
    // One that was there a moment ago may be gone; one that was named must be there.
    if (all) {
      std::optional<json::value> usage = co_await client.find(target);
      if (usage) usages.push_back(std::move(*usage));
    } else {
      usages.push_back(co_await client.call("GET", target));
    }
  }
  if (request.json) {
    print(json::serialize(usages) + "\n");
    co_return 0;
  }
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"NAME", "MEMORY", "PEAK", "LIMIT", "PROCESSES", "CPU", "OOM"});
  for (const json::value& usage : usages) rows.push_back(row_of(usage));
  print(table_text(rows));
  co_return 0;
}

}  // namespace

void add_stats(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("stats", "Show what sessions use");
  const auto request = std::make_shared<Request>();
  app.add_option("NAME", request->names, "The sessions (default: all)")->type_name("SESSION");
  add_daemon_options(app, request->daemon);
  app.add_flag("--json", request->json, "Print one JSON array, or an error as a JSON object");
  app.callback([request, &invocation] {
    invocation.work = [request] {
      for (std::string& name : request->names) name = session_name(name);
      return run_with_daemon(request->daemon,
                             [&](DaemonClient& client) { return stats(client, *request); });
    };
  });
}

}  // namespace caisson::cli
