#pragma once
#include <optional>
#include <string>

#include "api/rpc/runtime.h"
#include "net/router.h"

namespace caisson::api::rpc {

// GET /rpc/ws: a websocket of a LangBot host.
void add_routes(net::Router& router, Runtime& runtime);

// Whether a websocket to a process of this session may be opened by whoever asks: LangBot's hosts
// say which workspace they act for. nullopt: it may; else the answer. `process` is named in it.
std::optional<net::Response> refuse_relay(Runtime& runtime, const net::Exchange& exchange,
                                          const std::string& session_id,
                                          const std::string& process_id);

}  // namespace caisson::api::rpc
