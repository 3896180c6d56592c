#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "api/metered.h"
#include "api/rest/rest.h"
#include "async/cancellation.h"
#include "async/event.h"
#include "async/task_group.h"
#include "base/error.h"
#include "base/str.h"
#include "model/exec.h"
#include "net/error_status.h"
#include "session/output.h"

namespace caisson::api::rest {

namespace json = boost::json;
namespace asio = boost::asio;

namespace {

constexpr std::uint64_t kMaxBody = 40u << 20;  // a command of 16 MiB, escaped, and its input
constexpr std::size_t kMaxUnsent = 1u << 20;   // then the command is held back
constexpr std::string_view kKeyHeader = "Idempotency-Key";
constexpr auto kHeartbeat = std::chrono::seconds(15);  // shorter than what proxies give up after

json::object error_json(const Error& error) {
  return {{"code", to_string(error.code())}, {"message", std::string_view(error.what())}};
}

// The header is the body's request_id; null when there is none.
const std::string* find_key(const net::Request& request) {
  const std::string* key = nullptr;
  for (const net::Header& header : request.headers) {
    if (!net::same_name(header.name, kKeyHeader)) continue;
    if (key != nullptr) {
      throw Error(ErrorCode::validation_error, str(kKeyHeader, ": must be given once"));
    }
    key = &header.value;
  }
  return key;
}

// An exec, and the fields of it that the operator's policy decided.
struct ReadExec {
  session::ExecRequest request;
  std::vector<std::string> overridden;
};

ReadExec read_exec(const service::Policy& policy, const net::Exchange& exchange,
                   const std::string& body) {
  const json::value value = parse_body(body, metered(exchange.share()));
  model::BuiltRequest built = read_request(policy, exchange, value);
  model::require_command(built.request);
  session::ExecRequest request;
  request.asked = std::move(built.request);
  request.options = model::read_exec_options(value);
  request.cancellation = std::make_shared<Cancellation>();
  if (const std::string* key = find_key(exchange.request())) {
    model::check_request_id(*key, kKeyHeader);
    std::string& id = request.options.request_id;
    if (!id.empty() && id != *key) {
      throw Error(ErrorCode::validation_error, str("request_id: is not what the header ",
                                                   kKeyHeader, " says: give one of them"));
    }
    id = *key;
  }
  return {std::move(request), std::move(built.overridden)};
}

std::vector<net::Header> headers_for(const session::Executions::Share& share,
                                     const std::vector<std::string>& overridden) {
  std::vector<net::Header> headers = rest::headers_for(overridden);
  if (share.repeated()) headers.push_back({"Idempotent-Replayed", "true"});
  return headers;
}

Task<void> exec_once(session::Executions& executions, net::Exchange& exchange, ReadExec read) {
  session::Executions::Share share = co_await executions.begin(std::move(read.request));
  std::optional<Event::Subscription> watch;
  watch.emplace(exchange.client_gone(), [&share] { share.leave(); });
  const session::Answer answer = co_await share.answer();
  watch.reset();
  net::Response response =
      answer.error ? net::error_response(*answer.error) : net::Response{.body = answer.text};
  response.headers = headers_for(share, read.overridden);
  co_await exchange.reply(std::move(response));
}

Task<void> exec(session::Registry& sessions, session::Executions& executions,
                const service::Policy& policy, net::Exchange& exchange) {
  const std::string body = co_await exchange.read_body();
  ReadExec read = read_exec(policy, exchange, body);
  session::ExecRequest& request = read.request;
  if (!request.options.request_id.empty()) {
    co_return co_await exec_once(executions, exchange, std::move(read));
  }
  const std::shared_ptr<Cancellation> cancellation = request.cancellation;
  // The command of a client that goes away is ended, unless the client wanted it kept.
  std::optional<Event::Subscription> watch;
  if (!request.options.kept_without_caller()) {
    watch.emplace(exchange.client_gone(), [cancellation] { cancellation->cancel(); });
  }
  const model::ExecResult result = co_await sessions.exec(std::move(request));
  watch.reset();
  net::Response response = json_response(200, model::to_json(result));
  response.headers = rest::headers_for(read.overridden);
  co_await exchange.reply(std::move(response));
}

Task<void> get_execution(session::Executions& executions, net::Exchange& exchange) {
  const std::string id = exchange.param("id");
  const std::string key = exchange.param("key");
  const session::Executions::View view = co_await executions.get(id, key);
  net::Response response;
  if (view.state == store::ExecutionState::running) {
    response.body = R"({"state":"running"})";
  } else if (view.state == store::ExecutionState::interrupted) {
    response.body = R"({"state":"interrupted"})";
  } else if (view.answer.error) {
    response = json_response(
        200, json::object{{"state", "completed"}, {"error", error_json(*view.answer.error)}});
  } else {
    response.body = str(R"({"state":"completed","result":)", view.answer.text, "}");
  }
  co_await exchange.reply(std::move(response));
}

std::string server_sent(std::string_view event, const json::value& data) {
  return str("event: ", event, "\ndata: ", json::serialize(data), "\n\n");
}

// What an exec has to say, until it is sent. A client that does not take it holds the command back.
class Feed final : public backend::OutputViewer {
 public:
  Feed(const asio::any_io_executor& executor, std::shared_ptr<net::Share> share)
      : executor_(executor), held_(std::move(share), net::Flow::outgoing) {
    rearm();
  }

  void show(backend::OutputStream stream, std::string_view bytes) override {
    if (abandoned_) return;
    const bool out = stream == backend::OutputStream::out;
    const std::string text = (out ? out_ : err_).add(bytes);
    if (!text.empty()) say(out ? "stdout" : "stderr", json::object{{"text", text}});
    if (unsent_.size() >= kMaxUnsent || !room_) pause();
  }

  void say(std::string_view event, const json::value& data) {
    unsent_ += server_sent(event, data);
    room_ = held_.set(unsent_.size());
    something_->set();
  }

  // The last words: what was left of half characters, then how it ended.
  void finish(std::string_view event, const json::value& data) {
    if (const std::string text = out_.finish(); !text.empty()) {
      say("stdout", json::object{{"text", text}});
    }
    if (const std::string text = err_.finish(); !text.empty()) {
      say("stderr", json::object{{"text", text}});
    }
    say(event, data);
    finished_ = true;
  }

  // Nobody will take anything any more: the command is not held back.
  void abandon() {
    abandoned_ = true;
    unsent_.clear();
    held_.set(0);
    if (paused()) resume();
  }

  // What there is to send; a comment when there was nothing for a while, so that a connection that
  // is dead is noticed. Empty after the last words.
  Task<std::string> next() {
    if (unsent_.empty() && !finished_) {
      const std::shared_ptr<Event> something = something_;
      co_await something->wait_until(Clock::now() + kHeartbeat);
    }
    if (something_->is_set()) rearm();
    std::string taken = std::exchange(unsent_, {});
    held_.set(0);
    room_ = true;
    if (paused()) resume();
    if (taken.empty() && !finished_) taken = ": still running\n\n";
    co_return taken;
  }

 private:
  void rearm() { something_ = std::make_shared<Event>(executor_); }

  asio::any_io_executor executor_;
  session::TextStream out_;
  session::TextStream err_;
  std::string unsent_;
  net::Charge held_;  // by what is unsent
  bool room_ = true;  // for it
  std::shared_ptr<Event> something_;
  bool finished_ = false;
  bool abandoned_ = false;
};

Task<void> run_for(session::Registry& sessions, session::ExecRequest request,
                   std::shared_ptr<Feed> feed) {
  try {
    const model::ExecResult result = co_await sessions.exec(std::move(request));
    feed->finish("result", model::to_json(result));
  } catch (const Error& error) {
    feed->finish("error", json::object{{"error", error_json(error)}});
  }
}

// Somebody else has seen the output as it came, or nobody: it is told from the result.
void retell(const json::value& result, Feed& feed) {
  for (const std::string_view name : {"stdout", "stderr"}) {
    const json::string& text = result.at(name).as_string();
    if (!text.empty()) feed.say(name, json::object{{"text", text}});
  }
}

Task<void> tell_answer(session::Executions::Share& share, std::shared_ptr<Feed> feed) {
  try {
    const session::Answer answer = co_await share.answer();
    if (answer.error) throw Error(*answer.error);
    const json::value result = json::parse(answer.text);
    if (share.repeated()) retell(result, *feed);
    feed->finish("result", result);
  } catch (const Error& error) {
    feed->finish("error", json::object{{"error", error_json(error)}});
  }
}

// Until the last words, or until the client has gone: then what was thrown.
Task<std::exception_ptr> send_events(net::Exchange& exchange, std::shared_ptr<Feed> feed,
                                     std::vector<net::Header> headers) {
  try {
    headers.push_back({"X-Accel-Buffering", "no"});
    co_await exchange.begin(200, "text/event-stream", std::move(headers));
    for (;;) {
      std::string words = co_await feed->next();
      if (words.empty()) break;
      co_await exchange.write(std::move(words));
    }
    co_await exchange.end();
  } catch (...) {
    co_return std::current_exception();
  }
  co_return nullptr;
}

Task<void> stream_once(session::Executions& executions, net::Exchange& exchange, ReadExec read) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto feed = std::make_shared<Feed>(executor, exchange.share());
  read.request.viewer = feed;
  session::Executions::Share share = co_await executions.begin(std::move(read.request));
  std::optional<Event::Subscription> watch;
  watch.emplace(exchange.client_gone(), [&share] { share.leave(); });
  TaskGroup telling(executor);
  telling.spawn("answer for a stream", tell_answer(share, feed));
  const std::exception_ptr failure =
      co_await send_events(exchange, feed, headers_for(share, read.overridden));
  if (failure) {
    share.leave();
    feed->abandon();
  }
  co_await telling.finish();
  if (failure) std::rethrow_exception(failure);
}

Task<void> stream(session::Registry& sessions, session::Executions& executions,
                  const service::Policy& policy, net::Exchange& exchange) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const std::string body = co_await exchange.read_body();
  ReadExec read = read_exec(policy, exchange, body);
  session::ExecRequest& request = read.request;
  if (!request.options.request_id.empty()) {
    co_return co_await stream_once(executions, exchange, std::move(read));
  }
  const auto feed = std::make_shared<Feed>(executor, exchange.share());
  const std::shared_ptr<Cancellation> cancellation = request.cancellation;
  const bool keep = request.options.kept_without_caller();
  request.viewer = feed;
  std::optional<Event::Subscription> watch;
  if (!keep) watch.emplace(exchange.client_gone(), [cancellation] { cancellation->cancel(); });
  TaskGroup running(executor);
  running.spawn("exec for a stream", run_for(sessions, std::move(request), feed));
  std::vector<net::Header> headers = rest::headers_for(read.overridden);
  const std::exception_ptr failure = co_await send_events(exchange, feed, std::move(headers));
  // Nobody listens any more: the command ends, or goes on without being held back.
  if (failure && !keep) cancellation->cancel();
  if (failure) feed->abandon();
  co_await running.finish();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void add_exec_routes(net::Router& router, session::Registry& sessions,
                     session::Executions& executions, const service::Policy& policy) {
  const net::RouteOptions options{.max_body = kMaxBody};
  router.add(
      "POST", "/v1/sessions/{id}/exec",
      [&sessions, &executions, &policy](net::Exchange& exchange) {
        return exec(sessions, executions, policy, exchange);
      },
      options);
  router.add(
      "POST", "/v1/sessions/{id}/exec/stream",
      [&sessions, &executions, &policy](net::Exchange& exchange) {
        return stream(sessions, executions, policy, exchange);
      },
      options);
  router.add("GET", "/v1/sessions/{id}/exec/{key}", [&executions](net::Exchange& exchange) {
    return get_execution(executions, exchange);
  });
}

}  // namespace caisson::api::rest
