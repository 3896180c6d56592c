#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "journal/journal.h"
#include "net/http.h"
#include "net/router.h"
#include "service/policy.h"
#include "session/executions.h"
#include "session/files.h"
#include "session/processes.h"
#include "session/registry.h"

// REST: one file a resource. Handlers read, call and answer; they decide nothing.
namespace caisson::api::rest {

// A body as JSON; an empty one is an empty object. Throws validation_error with the place of the
// fault. Nesting is bounded, so that nothing behind this can be driven too deep.
boost::json::value parse_body(const std::string& body, boost::json::storage_ptr storage = {});

// The session that the path names, for whoever runs something in it or touches its files. Throws
// forbidden for a workspace's: that is for its host, who acts with its context. Others may look at
// it and remove it.
std::string acting_session(const net::Exchange& exchange);

net::Response json_response(int status, const boost::json::value& value);

// What the body asks for of the session that the path names, after the operator's policy.
model::BuiltRequest read_request(const service::Policy& policy, const net::Exchange& exchange,
                                 const boost::json::value& body);
// Tells a caller which of its fields the policy decided; nothing when there are none.
std::vector<net::Header> headers_for(const std::vector<std::string>& overridden);

boost::json::object to_json(const session::SessionView& view);
boost::json::object to_json(const session::ManagedProcess& process);
// How a process ended, empty when it did not; and the offsets of what is kept of a stream.
boost::json::object end_json(const std::optional<session::ProcessEnd>& end);
boost::json::object range_json(const journal::Journal& journal);

// A field of the query that is a number, 0 or above. Throws validation_error when it is none.
std::optional<std::uint64_t> find_number(const net::Request& request, std::string_view name);

// POST, GET and DELETE of /v1/sessions and /v1/sessions/{id}.
void add_session_routes(net::Router& router, session::Registry& sessions,
                        session::Processes& processes, const service::Policy& policy);
// POST /v1/sessions/{id}/exec and /v1/sessions/{id}/exec/stream, with a request id or without, and
// GET /v1/sessions/{id}/exec/{key} of one that had an id.
void add_exec_routes(net::Router& router, session::Registry& sessions,
                     session::Executions& executions, const service::Policy& policy);
// POST, GET and DELETE of /v1/sessions/{id}/managed-process and what is below it.
void add_process_routes(net::Router& router, session::Processes& processes);
// PUT, GET and DELETE of /v1/sessions/{id}/files?path=..., GET of .../directory and .../usage.
void add_file_routes(net::Router& router, session::Registry& sessions, session::Files& files);

}  // namespace caisson::api::rest
