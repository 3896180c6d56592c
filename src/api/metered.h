#pragma once
#include <boost/json/storage_ptr.hpp>
#include <memory>

#include "net/budget.h"

namespace caisson::api {

// Memory for JSON that a peer has sent, taken from its share: a list of short numbers needs many
// times the memory of its text. Where there is no room, reading throws busy. Without a share it is
// not counted.
boost::json::storage_ptr metered(std::shared_ptr<net::Share> share);

}  // namespace caisson::api
