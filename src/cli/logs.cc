#include <unistd.h>

#include <CLI/App.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/copy.h"
#include "cli/daemon_client.h"
#include "cli/option.h"
#include "cli/process_client.h"
#include "cli/process_options.h"
#include "cli/process_relay.h"
#include "cli/report.h"
#include "model/managed_process.h"
#include "net/target.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

struct Request {
  DaemonOptions daemon;
  std::string session;
  std::string process{model::kDefaultProcessId};
  std::optional<std::string> since;
  std::optional<std::string> lines;
  bool errors = false;
  bool follow = false;
};

// Where to begin, as the daemon is asked: one of the three, or nothing for all that is kept.
struct Beginning {
  Since since;
  std::optional<std::uint64_t> lines;
};

Beginning read_beginning(const Request& request) {
  Beginning beginning;
  if (request.since && request.lines) {
    throw Error(ErrorCode::validation_error, "--since, -n: give one of them");
  }
  if (request.since) {
    beginning.since = parse_since(*request.since, model::now());
  }
  if (request.lines) {
    const auto number = parse_integer(*request.lines);
    if (!number || *number < 0) {
      throw Error(ErrorCode::validation_error, str("-n: \"", printable(*request.lines),
                                                   "\" is not a number of lines, 0 or above"));
    }
    beginning.lines = static_cast<std::uint64_t>(*number);
  }
  return beginning;
}

std::uint64_t offset_in(const net::Response& response, std::string_view header) {
  const std::string* text = net::find_header(response.headers, header);
  const auto number = text != nullptr ? parse_integer(*text) : std::nullopt;
  if (number && *number >= 0) return static_cast<std::uint64_t>(*number);
  throw Error(ErrorCode::protocol_error,
              str("the daemon's answer has no ", header, "; is it a Caisson daemon?"));
}

// Prints what is kept, then what comes.
class Logs {
 public:
  Logs(DaemonClient& client, const Request& request, Beginning beginning)
      : client_(client),
        request_(request),
        name_(process_name(request.session, request.process)),
        beginning_(beginning) {}

  Task<int> work() {
    co_await print_kept();
    if (request_.follow && !nobody_reads_) co_await follow();
    if (error_ != 0) throw SystemError("standard output", error_);
    co_return nobody_reads_ ? kExitSignalBase + SIGPIPE : 0;
  }

 private:
  std::string output_target(const std::string& where) const {
    return process_target(name_,
                          str("/output?stream=", request_.errors ? "stderr" : "stdout", where));
  }

  std::string first_target() const {
    if (beginning_.lines) return output_target(str("&lines=", *beginning_.lines));
    if (const auto& time = beginning_.since.time) {
      return output_target(str("&since=", net::encode_segment(model::timestamp_text(*time))));
    }
    const auto& offset = beginning_.since.offset;
    return output_target(offset ? str("&from=", *offset) : "");
  }

  // What was there when it began; more comes while it is printed, and is for those who follow.
  Task<void> print_kept() {
    std::optional<std::uint64_t> wanted = beginning_.since.offset;
    if (!wanted && !beginning_.since.time && !beginning_.lines) wanted = 0;
    std::string target = first_target();
    std::optional<std::uint64_t> end;
    do {
      net::ClientRequest get{.target = target};
      const net::Response head = co_await client_.open(std::move(get));
      const std::uint64_t begin = offset_in(head, "Caisson-Offset");
      if (wanted && begin > *wanted) note(missing_bytes(*wanted, begin));
      if (!end) end = offset_in(head, "Caisson-End-Offset");
      next_ = offset_in(head, "Caisson-Next-Offset");
      co_await print_body();
      if (nobody_reads_ || next_ == begin) co_return;
      wanted = next_;
      target = output_target(str("&from=", next_));
    } while (next_ < *end);
  }

  Task<void> print_body() {
    for (;;) {
      const std::optional<std::string> piece = co_await client_.read_some();
      if (!piece) break;
      if (!nobody_reads_) show(*piece);
    }
  }

  void show(std::string_view bytes) {
    if (!FdSink{STDOUT_FILENO, error_}(bytes)) nobody_reads_ = true;
  }

  Task<RelayRequest> where_to_follow() {
    RelayRequest where{.name = name_,
                       .mode = RelayRequest::Mode::observe,
                       .from = next_,
                       .err_from = {},
                       .seen = true};
    if (request_.errors) {
      // There is no stream without the other: of standard output comes only what is new.
      const json::value process = co_await client_.call("GET", process_target(name_));
      const json::value& out = process.as_object().at("stdout");
      where.from = out.as_object().at("end").to_number<std::uint64_t>();
      where.err_from = next_;
    }
    co_return where;
  }

  Task<void> follow() {
    RelayRequest where = co_await where_to_follow();
    ProcessRelay relay(co_await boost::asio::this_coro::executor, client_, std::move(where));
    relay.on_notice = [](const std::string& sentence) { note(sentence); };
    const RelayStream stream = request_.errors ? RelayStream::err : RelayStream::out;
    while (!nobody_reads_) {
      const RelayEvent event = co_await relay.next();
      if (std::holds_alternative<RelayExit>(event)) break;
      if (const auto* truncated = std::get_if<RelayTruncated>(&event)) {
        if (truncated->stream == stream) note(missing_bytes(truncated->from, truncated->to));
      } else if (const auto* output = std::get_if<RelayOutput>(&event)) {
        if (output->stream == stream) show(output->bytes);
      }
    }
  }

  DaemonClient& client_;
  const Request& request_;
  ProcessName name_;
  Beginning beginning_;
  std::uint64_t next_ = 0;  // the offset behind what was printed
  bool nobody_reads_ = false;
  int error_ = 0;
};

int run_logs(const Request& request) {
  const Beginning beginning = read_beginning(request);
  process_name(request.session, request.process);  // or throws
  exit_on_signals();
  return run_with_daemon(request.daemon, [&](DaemonClient& client) -> Task<int> {
    Logs logs(client, request, beginning);
    co_return co_await logs.work();
  });
}

constexpr const char* kFooter =
    R"(Prints the bytes as the process wrote them. What is no longer kept is told on standard error.

Examples:
  caisson logs dev
  caisson logs -f --since 10m dev db
  caisson logs -n 100 --stderr dev
)";

}  // namespace

void add_logs(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("logs", "Print what a process has written");
  const auto request = std::make_shared<Request>();
  add_process_arguments(app, request->session, request->process);
  app.add_flag("-f,--follow", request->follow,
               "Go on with what it writes, until it ends; also while the daemon restarts");
  add_text(app, "--since", request->since, "WHEN",
           "Begin at the offset of a byte, at a time as 2026-01-31T12:00:00Z, or so long ago: 10m");
  add_text(app, "-n,--lines", request->lines, "N", "Begin so many lines before the end");
  app.add_flag("--stderr", request->errors, "Its standard error, not its standard output");
  add_daemon_options(app, request->daemon);
  app.footer(kFooter);
  app.callback(
      [request, &invocation] { invocation.work = [request] { return run_logs(*request); }; });
}

}  // namespace caisson::cli
