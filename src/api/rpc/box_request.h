#pragma once
#include <boost/json/object.hpp>
#include <optional>
#include <string>

#include "model/box_request.h"
#include "service/policy.h"

namespace caisson::api::rpc {

// A request of a LangBot host: what everybody may ask for, and what only such hosts say.
struct HostRequest {
  model::BoxRequest asked;
  // Hosts before 0.7 name the skill that a call is about; their boxes follow what they are sent.
  std::optional<std::string> skill_name = {};
};

// After the operator's policy. Unknown fields are refused for hosts of tenants since 0.7. Those
// before always say which skill they mean, and ignore what they do not know; hosts of old do so,
// too. Throws validation_error with the sentences of LangBot's models.
HostRequest read_host_request(const service::Policy& policy, const boost::json::object& data,
                              bool of_tenant);

}  // namespace caisson::api::rpc
