#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "api/rest/rest.h"
#include "async/cancellation.h"
#include "async/event.h"
#include "async/task_group.h"
#include "base/error.h"
#include "base/str.h"
#include "model/exec.h"
#include "session/output.h"

namespace caisson::api::rest {

namespace json = boost::json;
namespace asio = boost::asio;

namespace {

constexpr std::uint64_t kMaxBody = 24u << 20;          // a command of 8 MiB, escaped, and its input
constexpr std::size_t kMaxUnsent = 1u << 20;           // then the command is held back
constexpr auto kHeartbeat = std::chrono::seconds(15);  // shorter than what proxies give up after

session::ExecRequest read_request(const std::string& id, const std::string& body) {
  json::value value = parse_body(body);
  if (value.is_object()) value.as_object()["session_id"] = id;
  session::ExecRequest request;
  request.spec = model::read_exec_request(value);
  request.options = model::read_exec_options(value);
  request.cancellation = std::make_shared<Cancellation>();
  return request;
}

Task<void> exec(session::Registry& sessions, net::Exchange& exchange) {
  const std::string body = co_await exchange.read_body();
  session::ExecRequest request = read_request(exchange.param("id"), body);
  const std::shared_ptr<Cancellation> cancellation = request.cancellation;
  // The command of a client that goes away is ended, unless the client wanted it kept.
  std::optional<Event::Subscription> watch;
  if (request.options.on_disconnect == model::OnDisconnect::cancel) {
    watch.emplace(exchange.client_gone(), [cancellation] { cancellation->cancel(); });
  }
  const model::ExecResult result = co_await sessions.exec(std::move(request));
  watch.reset();
  net::Response response = json_response(200, model::to_json(result));
  co_await exchange.reply(std::move(response));
}

std::string server_sent(std::string_view event, const json::value& data) {
  return str("event: ", event, "\ndata: ", json::serialize(data), "\n\n");
}

// What an exec has to say, until it is sent. A client that does not take it holds the command back.
class Feed final : public backend::OutputViewer {
 public:
  explicit Feed(const asio::any_io_executor& executor) : executor_(executor) { rearm(); }

  void show(backend::OutputStream stream, std::string_view bytes) override {
    const bool out = stream == backend::OutputStream::out;
    const std::string text = (out ? out_ : err_).add(bytes);
    if (!text.empty()) say(out ? "stdout" : "stderr", json::object{{"text", text}});
    if (unsent_.size() >= kMaxUnsent) pause();
  }

  void say(std::string_view event, const json::value& data) {
    unsent_ += server_sent(event, data);
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

  // What there is to send; a comment when there was nothing for a while, so that a connection that
  // is dead is noticed. Empty after the last words.
  Task<std::string> next() {
    if (unsent_.empty() && !finished_) {
      const std::shared_ptr<Event> something = something_;
      co_await something->wait_until(Clock::now() + kHeartbeat);
    }
    if (something_->is_set()) rearm();
    std::string taken = std::exchange(unsent_, {});
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
  std::shared_ptr<Event> something_;
  bool finished_ = false;
};

Task<void> run_for(session::Registry& sessions, session::ExecRequest request,
                   std::shared_ptr<Feed> feed) {
  std::string event = "result";
  json::value data;
  try {
    model::ExecResult result = co_await sessions.exec(std::move(request));
    data = model::to_json(result);
  } catch (const Error& error) {
    event = "error";
    data = json::object{{"error", {{"code", to_string(error.code())}, {"message", error.what()}}}};
  }
  feed->finish(event, data);
}

Task<void> stream(session::Registry& sessions, net::Exchange& exchange) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const std::string body = co_await exchange.read_body();
  session::ExecRequest request = read_request(exchange.param("id"), body);
  const auto feed = std::make_shared<Feed>(executor);
  const std::shared_ptr<Cancellation> cancellation = request.cancellation;
  const bool keep = request.options.on_disconnect == model::OnDisconnect::keep;
  request.viewer = feed;
  std::optional<Event::Subscription> watch;
  if (!keep) watch.emplace(exchange.client_gone(), [cancellation] { cancellation->cancel(); });
  TaskGroup running(executor);
  running.spawn("exec for a stream", run_for(sessions, std::move(request), feed));

  std::exception_ptr failure;
  try {
    std::vector<net::Header> headers{{"X-Accel-Buffering", "no"}};
    co_await exchange.begin(200, "text/event-stream", std::move(headers));
    for (;;) {
      std::string words = co_await feed->next();
      if (words.empty()) break;
      co_await exchange.write(std::move(words));
    }
    co_await exchange.end();
  } catch (...) {
    failure = std::current_exception();
  }
  // Nobody listens any more: the command ends, or goes on without being held back.
  if (failure && !keep) cancellation->cancel();
  while (failure && running.size() > 0) {
    const std::string unheard = co_await feed->next();
    if (unheard.empty()) break;
  }
  co_await running.finish();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void add_exec_routes(net::Router& router, session::Registry& sessions) {
  const net::RouteOptions options{.max_body = kMaxBody};
  router.add(
      "POST", "/v1/sessions/{id}/exec",
      [&sessions](net::Exchange& exchange) { return exec(sessions, exchange); }, options);
  router.add(
      "POST", "/v1/sessions/{id}/exec/stream",
      [&sessions](net::Exchange& exchange) { return stream(sessions, exchange); }, options);
}

}  // namespace caisson::api::rest
