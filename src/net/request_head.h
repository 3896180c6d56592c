#pragma once
#include <string>
#include <string_view>

#include "net/client.h"

namespace caisson::net {

// The bytes of a request up to its body. Throws validation_error for a header that would end its
// line.
std::string request_head(const ClientRequest& request, std::string_view host,
                         std::string_view token);

}  // namespace caisson::net
