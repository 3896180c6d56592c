#include "cli/session_exec.h"

#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/copy.h"
#include "cli/report.h"
#include "model/box_fields.h"
#include "model/exec.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

constexpr std::size_t kMaxInput = 16u << 20;
constexpr std::size_t kMaxEvent = 64u << 20;
// The daemon says something every few seconds, but while nobody takes our output we do not listen.
constexpr auto kPatience = std::chrono::hours(24);

// What goes on while a command runs.
class Run {
 public:
  Run(DaemonClient& client, const SessionExec& exec) : client_(client), exec_(exec) {}

  Task<int> work() {
    json::object request = exec_.request;
    const std::optional<json::value> session = co_await client_.find(session_target(exec_.session));
    if (session && session->is_object()) fill_in(request, session->get_object());
    net::ClientRequest post{.method = "POST",
                            .target = session_target(exec_.session, "/exec/stream"),
                            .body = json::serialize(request),
                            .patience = kPatience};
    co_await client_.open(std::move(post));
    while (!ended_) {
      const std::optional<std::string> piece = co_await client_.read_some();
      if (!piece) {
        throw Error(ErrorCode::protocol_error,
                    "the daemon ended its answer before the command's end");
      }
      events_.add(*piece);
      while (const std::optional<ServerEvent> event = events_.next()) handle(*event);
    }
    if (err_error_ != 0) throw SystemError("standard error", err_error_);
    co_return nobody_reads_ ? kExitSignalBase + SIGPIPE : finish();
  }

 private:
  void handle(const ServerEvent& event) {
    const json::value data = json::parse(event.data);
    if (event.name == "stdout") {
      show_out(data);
    } else if (event.name == "stderr") {
      show_err(data);
    } else if (event.name == "result") {
      result_ = data;
      ended_ = true;
    } else if (event.name == "error") {
      throw_error(data);
    }
  }

  static std::string_view text_of(const json::value& data) {
    return data.as_object().at("text").as_string();
  }

  void show_out(const json::value& data) {
    if (exec_.json) return;
    int error = 0;
    if (FdSink{STDOUT_FILENO, error}(text_of(data))) return;
    if (error != 0) throw SystemError("standard output", error);
    nobody_reads_ = true;
    ended_ = true;
  }

  // The command may go on without a reader of its complaints.
  void show_err(const json::value& data) {
    if (exec_.json || err_closed_) return;
    err_closed_ = !FdSink{STDERR_FILENO, err_error_}(text_of(data));
  }

  [[noreturn]] void throw_error(const json::value& data) const {
    throw find_error(data).value_or(
        Error(ErrorCode::protocol_error, "the daemon told of an error in words unknown here"));
  }

  int finish() const {
    if (exec_.json) print(result_.as_object());
    const model::ExecResult result = model::read_exec_result(result_);
    if (!exec_.json) explain(result);
    if (result.status == model::ExecStatus::timed_out) return kExitTimeout;
    return static_cast<int>(result.exit_code.value_or(kExitFailure));
  }

  // What the exit code alone does not tell.
  void explain(const model::ExecResult& result) const {
    if (result.status == model::ExecStatus::timed_out) {
      const bool kept = exec_.request.contains("on_timeout");
      return say(str("the command timed out after ",
                     exec_.request.at("timeout_sec").to_number<std::int64_t>(), " s and was killed",
                     !kept             ? ", and the session with it; --keep-session keeps it"
                     : result.box_lost ? str("; ", *result.box_lost)
                                       : ""));
    }
    if (!result.oom) return;
    const bool itself = result.exit_code == kExitSignalBase + SIGKILL;
    say(str(itself ? "the command" : "a process of the command",
            " was killed because the box ran out of memory: its limit is ",
            result.oom_limit_mb.value_or(0),
            " MB; remove the session and give it more with "
            "--memory"));
  }

  DaemonClient& client_;
  const SessionExec& exec_;
  EventReader events_;
  json::value result_;
  bool ended_ = false;
  bool nobody_reads_ = false;
  bool err_closed_ = false;
  int err_error_ = 0;
};

}  // namespace

int run_in_session(SessionExec exec) {
  if (!is_utf8(json::serialize(exec.request))) {
    throw Error(ErrorCode::validation_error,
                "exec: the command, its variables and its input must be UTF-8 to go to a session; "
                "bring other bytes there with `caisson cp`");
  }
  exit_on_signals();
  DaemonPlace place = exec.daemon;
  return run_with_daemon(std::move(place), [&exec](DaemonClient& client) -> Task<int> {
    Run run(client, exec);
    co_return co_await run.work();
  });
}

std::string read_input() {
  std::string input;
  try {
    input = read_all(STDIN_FILENO, "standard input", kMaxInput);
  } catch (const SystemError&) {
    throw;
  } catch (const Error& error) {
    throw Error(ErrorCode::payload_too_large,
                str(error.what(),
                    ", the most that -i passes to a session; bring it there with "
                    "`caisson cp`"));
  }
  return input;
}

void fill_in(json::object& request, const json::object& session) {
  model::for_each_setting([&](const auto& field) {
    const json::value* value = session.if_contains(field.name);
    if (value != nullptr && !request.contains(field.name)) request.emplace(field.name, *value);
  });
}

void EventReader::add(std::string_view bytes) {
  bytes_.erase(0, std::exchange(begin_, 0));
  if (bytes_.size() + bytes.size() > kMaxEvent) {
    throw Error(ErrorCode::protocol_error,
                str("the daemon sent an event of more than ", kMaxEvent, " bytes"));
  }
  bytes_ += bytes;
}

std::optional<ServerEvent> EventReader::next() {
  for (;;) {
    const std::size_t end = bytes_.find("\n\n", begin_);
    if (end == std::string::npos) return std::nullopt;
    const std::string_view block = std::string_view(bytes_).substr(begin_, end - begin_);
    begin_ = end + 2;
    ServerEvent event;
    for (const std::string_view line : split(block, '\n')) {
      if (line.starts_with("event: ")) event.name = line.substr(7);
      if (line.starts_with("data: ")) event.data += line.substr(6);
    }
    if (!event.name.empty()) return event;  // otherwise it is a comment: the daemon is still there
  }
}

}  // namespace caisson::cli
