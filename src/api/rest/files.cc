#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdlib>
#include <memory>
#include <utility>

#include "api/rest/rest.h"
#include "async/cancellation.h"
#include "async/event.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "session/files.h"

namespace caisson::api::rest {

namespace json = boost::json;

namespace {

std::string path_of(const net::Exchange& exchange) {
  const std::string* path = exchange.request().find_query("path");
  if (path == nullptr || path->empty()) {
    throw Error(ErrorCode::validation_error,
                "path must be given: /v1/sessions/NAME/files?path=/workspace/FILE");
  }
  return *path;
}

unsigned mode_of(const net::Exchange& exchange) {
  const std::string* text = exchange.request().find_query("mode");
  if (text == nullptr) return 0644;
  unsigned mode = 0;
  for (const char c : *text) {
    if (c < '0' || c > '7' || mode > 0777) {
      throw Error(ErrorCode::validation_error, "mode must be octal, as 644");
    }
    mode = mode * 8 + static_cast<unsigned>(c - '0');
  }
  return mode;
}

std::string_view type_name(char type) {
  switch (type) {
    case 'f':
      return "file";
    case 'd':
      return "directory";
    case 'l':
      return "link";
    default:
      return "other";
  }
}

// The wish to end what a caller who goes away was waiting for.
class Watch {
 public:
  explicit Watch(net::Exchange& exchange)
      : gone_(exchange.client_gone(), [wish = wish_] { wish->cancel(); }) {}
  const session::Files::Wish& wish() const { return wish_; }

 private:
  session::Files::Wish wish_ = std::make_shared<Cancellation>();
  Event::Subscription gone_;
};

Task<void> download(session::Registry& sessions, session::Files& files, net::Exchange& exchange) {
  std::string path = path_of(exchange);
  const Watch watch(exchange);
  session::Files::Download content =
      co_await files.get(sessions.use(acting_session(exchange)), std::move(path), watch.wish());
  std::vector<net::Header> headers{{"X-File-Size", std::to_string(content.size())}};
  co_await exchange.begin(200, "application/octet-stream", std::move(headers));
  while (std::optional<std::string> piece = co_await content.next()) {
    co_await exchange.write(std::move(*piece));
  }
  co_await exchange.end();
}

Task<void> list(session::Registry& sessions, session::Files& files, net::Exchange& exchange) {
  std::string path = path_of(exchange);
  const Watch watch(exchange);
  const std::vector<session::FileEntry> entries =
      co_await files.list(sessions.use(acting_session(exchange)), std::move(path), watch.wish());
  json::array array;
  for (const session::FileEntry& entry : entries) {
    array.push_back(json::object{{"name", entry.name},
                                 {"type", type_name(entry.type)},
                                 {"mode", entry.mode},
                                 {"size", entry.size},
                                 {"modified", entry.modified}});
  }
  net::Response response = json_response(200, json::object{{"entries", std::move(array)}});
  co_await exchange.reply(std::move(response));
}

Task<void> upload(session::Registry& sessions, session::Files& files, net::Exchange& exchange) {
  std::string path = path_of(exchange);
  const unsigned mode = mode_of(exchange);
  const Watch watch(exchange);
  session::Files::Upload target =
      co_await files.put(sessions.use(acting_session(exchange)), path, mode, watch.wish());
  std::uint64_t size = 0;
  while (std::optional<std::string> piece = co_await exchange.read_some()) {
    size += piece->size();
    co_await target.write(std::move(*piece));
  }
  co_await target.commit();
  net::Response response = json_response(200, json::object{{"path", path}, {"size", size}});
  co_await exchange.reply(std::move(response));
}

Task<void> remove(session::Registry& sessions, session::Files& files, net::Exchange& exchange) {
  const std::string path = path_of(exchange);
  const Watch watch(exchange);
  co_await files.remove(sessions.use(acting_session(exchange)), path, watch.wish());
  net::Response response = json_response(200, json::object{{"deleted", path}});
  co_await exchange.reply(std::move(response));
}

Task<void> usage(session::Registry& sessions, net::Exchange& exchange) {
  const session::Session::Use session = sessions.use(exchange.param("id"));
  const backend::BoxUsage used = co_await session->usage();
  net::Response response = json_response(
      200, json::object{{"session_id", session->id()},
                        {"memory_bytes", used.memory_bytes},
                        {"peak_memory_bytes", used.peak_memory_bytes},
                        {"memory_limit_bytes", session->box_settings().memory_mb << 20},
                        {"processes", used.processes},
                        {"processes_limit", session->box_settings().pids_limit},
                        {"cpu_ms", used.cpu_time.count() / 1000},
                        {"oom_kills", used.oom_kills}});
  co_await exchange.reply(std::move(response));
}

}  // namespace

void add_file_routes(net::Router& router, session::Registry& sessions, session::Files& files) {
  const net::RouteOptions streamed{.max_body = net::kUnlimited, .body = net::BodyKind::any};
  router.add("GET", "/v1/sessions/{id}/files", [&sessions, &files](net::Exchange& exchange) {
    return download(sessions, files, exchange);
  });
  router.add(
      "PUT", "/v1/sessions/{id}/files",
      [&sessions, &files](net::Exchange& exchange) { return upload(sessions, files, exchange); },
      streamed);
  router.add("DELETE", "/v1/sessions/{id}/files", [&sessions, &files](net::Exchange& exchange) {
    return remove(sessions, files, exchange);
  });
  router.add("GET", "/v1/sessions/{id}/directory", [&sessions, &files](net::Exchange& exchange) {
    return list(sessions, files, exchange);
  });
  router.add("GET", "/v1/sessions/{id}/usage",
             [&sessions](net::Exchange& exchange) { return usage(sessions, exchange); });
}

}  // namespace caisson::api::rest
