#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value_from.hpp>
#include <utility>

#include "api/rest/rest.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "model/managed_process.h"
#include "model/object_reader.h"

namespace caisson::api::rest {

namespace json = boost::json;

namespace {

constexpr std::uint64_t kMaxOutput = 4u << 20;

}  // namespace

json::object end_json(const std::optional<session::ProcessEnd>& end) {
  if (!end) return {};
  return {{"at", model::timestamp_text(end->at)},
          {"exit_code", json::value_from(end->exit_code)},
          {"signal", json::value_from(end->signal)},
          {"oom", end->oom},
          {"reason", end->reason},
          {"cpu_ms", end->cpu_us / 1000},
          {"peak_memory_bytes", end->peak_memory_bytes}};
}

json::object range_json(const journal::Journal& journal) {
  return {{"begin", journal.begin()}, {"end", journal.end()}};
}

json::object to_json(const session::ManagedProcess& process) {
  json::object object = model::to_json(process.info());
  object["pid"] = process.pid();
  object["restarts"] = process.restarts();
  object["last_end"] = nullptr;
  if (const auto& end = process.last_end()) object["last_end"] = end_json(end);
  object["stdout"] = range_json(process.out());
  object["stderr"] = range_json(process.err());
  return object;
}

namespace {

Task<void> reply(net::Exchange& exchange, int status, json::value value) {
  net::Response response = json_response(status, value);
  co_await exchange.reply(std::move(response));
}

// Ids that could not be asked for again: they are parts of paths.
model::ManagedProcessSpec read_spec(const std::string& body) {
  model::ManagedProcessSpec spec = model::read_managed_process_spec(parse_body(body));
  const std::string& id = spec.process_id;
  if (id.empty() || id == "." || id == ".." || id == "ws") {
    throw Error(ErrorCode::validation_error,
                str("process_id: \"", id, "\" cannot be told from another path: choose another"));
  }
  return spec;
}

int read_signal(const std::string& body) {
  const json::value value = parse_body(body);
  model::ObjectReader reader(value, "");
  const int number = model::read_signal(reader, "signal");
  reader.reject_unknown_fields();
  return number;
}

const journal::Journal& read_stream(const net::Exchange& exchange,
                                    const session::ManagedProcess& process) {
  const std::string* text = exchange.request().find_query("stream");
  if (text == nullptr || *text == "stdout") return process.out();
  if (*text == "stderr") return process.err();
  throw Error(ErrorCode::validation_error, "stream: must be stdout or stderr");
}

// Where the answer begins: at an offset, at a time, or so many lines before the end.
std::uint64_t read_from(const net::Exchange& exchange, const journal::Journal& journal) {
  const net::Request& request = exchange.request();
  int given = 0;
  for (const char* name : {"from", "since", "lines"}) given += request.find_query(name) != nullptr;
  if (given > 1) {
    throw Error(ErrorCode::validation_error, "from, since, lines: give one of them");
  }
  if (const std::string* since = request.find_query("since")) {
    const auto time = model::parse_timestamp(*since);
    if (!time || !time->has_zone) {
      throw Error(ErrorCode::validation_error,
                  "since: must be a time with its zone, as 2026-01-31T12:00:00Z");
    }
    return journal.offset_at_time(time->time.time_since_epoch().count());
  }
  if (const auto lines = find_number(request, "lines")) {
    return journal.offset_of_last_lines(*lines);
  }
  const std::uint64_t from = find_number(request, "from").value_or(journal.begin());
  if (from > journal.end()) {
    throw Error(ErrorCode::validation_error,
                str("from: ", from, " lies behind the end, ", journal.end()));
  }
  return from;
}

// What is kept now; to follow it, there is the websocket. An offset that is no longer kept is
// answered from the oldest byte that is, as the header tells.
Task<void> answer_output(const session::ManagedProcess& process, net::Exchange& exchange) {
  const journal::Journal& journal = read_stream(exchange, process);
  const std::uint64_t limit =
      std::min(find_number(exchange.request(), "limit").value_or(kMaxOutput), kMaxOutput);
  std::uint64_t from = std::max(read_from(exchange, journal), journal.begin());
  std::string bytes(std::min(limit, journal.end() - from), '\0');
  journal::ReadResult read = journal.read(from, bytes);
  while (read.truncated) {
    from = read.begin;
    bytes.resize(std::min(limit, journal.end() - from));
    read = journal.read(from, bytes);
  }
  bytes.resize(read.bytes);
  net::Response response;
  response.content_type = "application/octet-stream";
  response.headers = {{"Caisson-Offset", str(from)},
                      {"Caisson-Next-Offset", str(from + bytes.size())},
                      {"Caisson-End-Offset", str(journal.end())},
                      {"Caisson-Closed", journal.closed() ? "true" : "false"}};
  response.body = std::move(bytes);
  co_await exchange.reply(std::move(response));
}

}  // namespace

void add_process_routes(net::Router& router, session::Processes& processes) {
  router.add("POST", "/v1/sessions/{id}/managed-process",
             [&processes](net::Exchange& exchange) -> Task<void> {
               const std::string id = acting_session(exchange);
               const std::string body = co_await exchange.read_body();
               model::ManagedProcessSpec spec = read_spec(body);
               const auto process = co_await processes.start(id, std::move(spec));
               json::value shown = to_json(*process);
               co_await reply(exchange, 201, std::move(shown));
             });

  router.add("GET", "/v1/sessions/{id}/managed-process",
             [&processes](net::Exchange& exchange) -> Task<void> {
               const auto process =
                   processes.get(exchange.param("id"), std::string(model::kDefaultProcessId));
               json::value shown = to_json(*process);
               co_await reply(exchange, 200, std::move(shown));
             });

  router.add("GET", "/v1/sessions/{id}/managed-processes",
             [&processes](net::Exchange& exchange) -> Task<void> {
               json::array list;
               for (const auto& process : processes.list(exchange.param("id"))) {
                 list.push_back(to_json(*process));
               }
               json::value shown = std::move(list);
               co_await reply(exchange, 200, std::move(shown));
             });

  router.add("GET", "/v1/sessions/{id}/managed-process/{process}",
             [&processes](net::Exchange& exchange) -> Task<void> {
               const auto process = processes.get(exchange.param("id"), exchange.param("process"));
               json::value shown = to_json(*process);
               co_await reply(exchange, 200, std::move(shown));
             });

  router.add("DELETE", "/v1/sessions/{id}/managed-process/{process}",
             [&processes](net::Exchange& exchange) -> Task<void> {
               const std::string id = exchange.param("id");
               const std::string process = exchange.param("process");
               co_await processes.remove(id, process);
               json::value shown = json::object{{"deleted", process}};
               co_await reply(exchange, 200, std::move(shown));
             });

  router.add("GET", "/v1/sessions/{id}/managed-process/{process}/output",
             [&processes](net::Exchange& exchange) -> Task<void> {
               const auto process = processes.get(exchange.param("id"), exchange.param("process"));
               co_await answer_output(*process, exchange);
             });

  router.add("POST", "/v1/sessions/{id}/managed-process/{process}/signal",
             [&processes](net::Exchange& exchange) -> Task<void> {
               const auto process =
                   processes.get(acting_session(exchange), exchange.param("process"));
               const std::string body = co_await exchange.read_body();
               process->signal(read_signal(body));
               json::value shown = to_json(*process);
               co_await reply(exchange, 200, std::move(shown));
             });
}

}  // namespace caisson::api::rest
