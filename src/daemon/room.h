#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <cstddef>

#include "model/config.h"

namespace caisson::daemon {

// Lets this process have as many descriptors as it may, and gives their number. Payloads get a
// limit of their own with their box.
std::size_t raise_descriptor_limit();

// How many sessions so many descriptors suffice for, beside so many connections.
std::size_t sessions_that_fit(std::size_t descriptors, std::size_t connections);

// The loop keeps a record for each descriptor that it ever watched at one time, and never frees it.
// Made one by one among the memory of sessions, each keeps a page from being given back when they
// are gone. Makes so many at once, side by side.
void make_records(const boost::asio::any_io_executor& loop, std::size_t count);

// Tells the operator, warns of a limit of sessions that cannot be reached, and gives how many there
// can be.
std::size_t report_room(std::size_t descriptors, const model::Config& config);

}  // namespace caisson::daemon
