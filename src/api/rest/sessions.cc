#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "api/rest/rest.h"
#include "base/error.h"
#include "model/isolation.h"
#include "model/managed_process.h"
#include "model/session_info.h"

namespace caisson::api::rest {

namespace json = boost::json;

namespace {

// By id, and the default one once more. Nothing when there are none.
void add_processes(json::object& shown,
                   const std::vector<std::shared_ptr<session::ManagedProcess>>& processes) {
  if (processes.empty()) return;
  json::object map;
  for (const auto& process : processes) {
    map[process->spec().process_id] = to_json(*process);
    if (process->spec().process_id == model::kDefaultProcessId) {
      shown["managed_process"] = to_json(*process);
    }
  }
  shown["managed_processes"] = std::move(map);
}

}  // namespace

json::object to_json(const session::SessionView& view) {
  json::object object = model::to_json(view.info);
  object["state"] = view.returning ? "returning"
                    : !view.alive  ? "dead"
                    : view.in_use  ? "busy"
                                   : "idle";
  object["execs"] = view.execs;
  json::array mounts;
  for (const model::MountSpec& mount : view.extra_mounts) mounts.push_back(model::to_json(mount));
  object["extra_mounts"] = std::move(mounts);
  const model::IsolationReport weaker{view.isolation.weaker()};
  object["weaker_isolation"] = model::to_json(weaker);
  return object;
}

namespace {

net::Response session_response(int status, const session::SessionView& view) {
  return json_response(status, to_json(view));
}

}  // namespace

void add_session_routes(net::Router& router, session::Registry& sessions,
                        session::Processes& processes, const service::Policy& policy) {
  router.add("GET", "/v1/sessions", [&sessions](net::Exchange& exchange) -> Task<void> {
    json::array list;
    for (const session::SessionView& view : sessions.list()) list.push_back(to_json(view));
    net::Response response = json_response(200, std::move(list));
    co_await exchange.reply(std::move(response));
  });

  const auto create = [&sessions, &policy](net::Exchange& exchange) -> Task<void> {
    const std::string body = co_await exchange.read_body();
    model::BuiltRequest built = read_request(policy, exchange, parse_body(body));
    const session::SessionView view = co_await sessions.create(std::move(built.request));
    net::Response response = session_response(201, view);
    response.headers = headers_for(built.overridden);
    co_await exchange.reply(std::move(response));
  };
  router.add("POST", "/v1/sessions/{id}", create);

  const auto get = [&sessions, &processes](net::Exchange& exchange) -> Task<void> {
    json::object shown = to_json(sessions.get(exchange.param("id")));
    add_processes(shown, processes.list(exchange.param("id")));
    net::Response response = json_response(200, std::move(shown));
    co_await exchange.reply(std::move(response));
  };
  router.add("GET", "/v1/sessions/{id}", get);

  const auto show = [&sessions](net::Exchange& exchange) -> Task<void> {
    const std::string body = co_await exchange.read_body();
    const json::value value = parse_body(body);
    model::MountSpec mount = model::read_mount_spec(value, "");
    if (mount.mode == model::MountMode::none) {
      throw Error(ErrorCode::validation_error, "mode: \"none\" shows nothing: ro or rw");
    }
    const session::SessionView view =
        co_await sessions.show_mount(acting_session(exchange), std::move(mount));
    co_await exchange.reply(session_response(201, view));
  };
  router.add("POST", "/v1/sessions/{id}/mounts", show);

  const auto hide = [&sessions](net::Exchange& exchange) -> Task<void> {
    const std::string* path = exchange.request().find_query("path");
    if (path == nullptr || path->empty()) {
      throw Error(ErrorCode::validation_error, "path: is required, as a query: ?path=/workspace/x");
    }
    std::string mount_path = *path;
    const session::SessionView view =
        co_await sessions.hide_mount(acting_session(exchange), std::move(mount_path));
    co_await exchange.reply(session_response(200, view));
  };
  router.add("DELETE", "/v1/sessions/{id}/mounts", hide);

  const auto remove = [&sessions](net::Exchange& exchange) -> Task<void> {
    const std::string id = exchange.param("id");
    co_await sessions.remove(id);
    net::Response response = json_response(200, json::object{{"deleted", id}});
    co_await exchange.reply(std::move(response));
  };
  router.add("DELETE", "/v1/sessions/{id}", remove);
}

}  // namespace caisson::api::rest
