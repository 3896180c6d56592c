#pragma once
#include <sys/eventfd.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/unique_fd.h"

namespace caisson {

// A loop keeps a record for each descriptor that it ever watched at one time, and never frees it.
// Made one by one among the memory of what comes with the descriptors, each keeps a page of that
// from being given back. Makes so many more at once, side by side.
inline void make_loop_records(const boost::asio::any_io_executor& loop, std::size_t count) {
  const UniqueFd event(check_syscall("eventfd", ::eventfd(0, EFD_CLOEXEC)));
  std::vector<boost::asio::posix::stream_descriptor> watched;
  watched.reserve(count);
  while (watched.size() < count) {
    watched.emplace_back(loop, duplicate(event.get(), "an event").release());
  }
}

}  // namespace caisson
