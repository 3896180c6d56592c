#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "api/backend_probe.h"
#include "model/config.h"
#include "net/router.h"
#include "net/server.h"
#include "service/box_configuration.h"
#include "service/policy.h"
#include "session/executions.h"
#include "session/files.h"
#include "session/processes.h"
#include "session/registry.h"

// The outside of the daemon: what the port answers.
namespace caisson::api {

class Readiness;

// Of LangBot's hosts.
struct HostCounts {
  std::size_t connections = 0;
  std::uint64_t requests = 0;  // since the start
  std::uint64_t failures = 0;  // of these, answered with an error
};

// Everything the routes speak to. All of it outlives the router.
struct Services {
  session::Registry& sessions;
  session::Executions& executions;
  session::Files& files;
  session::Processes& processes;
  BackendProbe& backend;
  Readiness& readiness;
  const service::BoxConfiguration& configuration;
  const service::Policy& policy;
  HostCounts& hosts;
  std::function<net::ServerCounts()> connections;  // of the server, which comes after the routes
  std::string version;
};

// Who may not have a websocket to a process, with the answer.
using RelayGate = std::function<std::optional<net::Response>(
    const net::Exchange& exchange, const std::string& session_id, const std::string& process_id)>;

// Every route there is but those of LangBot's hosts, which have a runtime of their own (rpc/).
void add_routes(net::Router& router, const Services& services, const RelayGate& gate);

// GET /v1/status, /v1/health, /healthz, /readyz.
void add_health_routes(net::Router& router, const Services& services);
// GET /v1/sessions/{id}/managed-process/ws and .../{process}/ws: a websocket to a process's
// standard streams, one line a message.
void add_relay_routes(net::Router& router, session::Processes& processes, const RelayGate& gate);
// GET /metrics, in Prometheus' text format.
void add_metrics_route(net::Router& router, const Services& services);
// GET /openapi.json: the document is the same for every daemon of a version.
void add_openapi_route(net::Router& router, const std::string& version);
boost::json::object openapi_document(const std::string& version);

}  // namespace caisson::api
