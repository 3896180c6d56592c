#pragma once
#include <boost/json/object.hpp>
#include <string>

#include "report.h"

namespace caisson::benchmarks {

std::string to_markdown(const Report& report);
boost::json::object to_json(const Report& report);

}  // namespace caisson::benchmarks
