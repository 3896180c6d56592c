#pragma once
#include <cstddef>
#include <string>

#include "api/rpc/runtime.h"
#include "daemon/serve.h"
#include "daemon/state_dir.h"
#include "daemon/storage.h"
#include "model/config.h"
#include "session/executions.h"
#include "session/processes.h"
#include "session/registry.h"

// What the operator's configuration means to the parts of a daemon.
namespace caisson::daemon {

session::Settings session_settings(const model::Config& config, std::size_t descriptors);
session::ExecutionSettings execution_settings(const model::DaemonConfig& daemon);
session::ProcessSettings process_settings(const model::Limits& limits);
api::rpc::RuntimeSettings runtime_settings(const ServeOptions& options, const StateDir& state,
                                           std::string token, Storage& storage);

}  // namespace caisson::daemon
