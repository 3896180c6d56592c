#pragma once
#include <boost/json/object.hpp>
#include <string>

#include "api/rpc/action.h"
#include "session/process.h"

namespace caisson::api::rpc {

// The session that the field `session_id` names, as the registry knows it. Throws a KeyError or a
// ValueError, and admission_refused for one that a managed workspace cannot have.
std::string session_of(const Call& call);

// As LangBot knows processes: one that is about to be started again runs.
boost::json::object process_json(const Domain& domain, const session::ManagedProcess& process);

}  // namespace caisson::api::rpc
