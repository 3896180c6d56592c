#include <boost/json/object.hpp>
#include <utility>

#include "api/api.h"
#include "api/readiness.h"
#include "api/rest/rest.h"
#include "model/isolation.h"
#include "model/limits.h"

namespace caisson::api {

namespace json = boost::json;

namespace {

json::object backend_json(const BackendProbe& probe, const backend::BackendStatus& status) {
  json::object object{{"name", probe.backend_name()}, {"available", status.available}};
  if (!status.available) object["reason"] = status.reason;
  return object;
}

// As LangBot's runtime reports itself; what this one has none of is empty.
json::object resources_json(const Services& services) {
  const session::RegistryStatus status = services.sessions.status();
  const net::ServerCounts connections = services.connections();
  return {{"event_loop", json::object()},
          {"blocking_executor", json::object()},
          {"sessions", status.sessions},
          {"returning_sessions", status.returning},
          {"managed_processes", services.processes.running()},
          {"completed_processes", services.processes.size() - services.processes.running()},
          {"creating_session_tasks", status.being_made},
          {"closing_session_tasks", status.being_closed},
          {"background_tasks", status.pooled_boxes},
          {"connections", connections.connections}};
}

Task<void> answer_status(const Services& services, net::Exchange& exchange) {
  const backend::BackendStatus backend = co_await services.backend.status();
  const session::RegistryStatus status = services.sessions.status();
  const model::IsolationReport weaker{backend.isolation.weaker()};
  net::Response response = rest::json_response(
      200, json::object{{"backend", backend_json(services.backend, backend)},
                        {"active_sessions", status.sessions},
                        {"returning_sessions", status.returning},
                        {"managed_processes", services.processes.running()},
                        {"session_ttl_sec", services.sessions.settings().ttl.count()},
                        {"limits", model::to_json(services.configuration.config().limits)},
                        {"version", services.version},
                        {"isolation", model::to_json(backend.isolation)},
                        {"weaker_isolation", model::to_json(weaker)},
                        {"pooled_boxes", status.pooled_boxes},
                        {"parked_shells", status.parked_shells}});
  co_await exchange.reply(std::move(response));
}

// Who is not known learns whether, and not why.
Task<void> answer_health(const Services& services, net::Exchange& exchange) {
  const backend::BackendStatus backend = co_await services.backend.status();
  const bool known = exchange.peer().is_known();
  net::Response response =
      rest::json_response(200, known ? backend_json(services.backend, backend)
                                     : json::object{{"available", backend.available}});
  co_await exchange.reply(std::move(response));
}

Task<void> answer_live(const Services& services, net::Exchange& exchange) {
  json::object report{{"live", true}};
  if (exchange.peer().is_known()) report["resources"] = resources_json(services);
  net::Response response = rest::json_response(200, std::move(report));
  co_await exchange.reply(std::move(response));
}

Task<void> answer_ready(const Services& services, net::Exchange& exchange) {
  json::object report = co_await services.readiness.report();
  const bool ready = report.at("ready").as_bool();
  if (exchange.peer().is_known()) {
    report["resources"] = resources_json(services);
  } else {
    report = {{"ready", ready}};
  }
  const int status = ready ? 200 : 503;
  co_await exchange.reply(rest::json_response(status, std::move(report)));
}

}  // namespace

void add_health_routes(net::Router& router, const Services& services) {
  const net::RouteOptions open{.needs_token = false};  // probes have no secrets
  const auto add = [&](const char* path, auto answer, const net::RouteOptions& options) {
    router.add(
        "GET", path,
        [services, answer](net::Exchange& exchange) { return answer(services, exchange); },
        options);
  };
  add("/v1/status", answer_status, {});
  add("/v1/health", answer_health, open);
  add("/healthz", answer_live, open);
  add("/readyz", answer_ready, open);
}

void add_routes(net::Router& router, const Services& services, const RelayGate& gate) {
  // A session that a daemon before us had may still be on its way.
  router.await_before("id", [&sessions = services.sessions](net::Exchange& exchange) {
    return sessions.wait_for(exchange.param("id"));
  });
  rest::add_session_routes(router, services.sessions, services.processes, services.policy);
  rest::add_process_routes(router, services.processes);
  add_relay_routes(router, services.processes, gate);
  rest::add_exec_routes(router, services.sessions, services.executions, services.policy);
  rest::add_file_routes(router, services.sessions, services.files);
  add_health_routes(router, services);
  add_metrics_route(router, services);
  add_openapi_route(router, services.version);
}

}  // namespace caisson::api
