#pragma once
#include <optional>
#include <string>

#include "api/rpc/runtime.h"
#include "session/tenancy.h"

namespace caisson::api::rpc {

// Where the package of a workspace's skill is; nullopt when it has none of that name.
Task<std::optional<std::string>> find_package(Runtime& runtime, session::Tenant tenant,
                                              std::string name);

}  // namespace caisson::api::rpc
