#include "daemon/room.h"

#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace caisson::daemon {

namespace {

// The guest's socket, its pidfd and the user namespace of its ids. Of these the keeper has two.
constexpr std::size_t kPerSession = 3;
// The store, launchers, directories of control groups, and commands at work.
constexpr std::size_t kOwn = 256;

}  // namespace

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  check_syscall("limit of open files", ::getrlimit(RLIMIT_NOFILE, &limit));
  const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  // A hard limit of "unlimited" may be more than the kernel gives to anybody.
  if (::setrlimit(RLIMIT_NOFILE, &limit) < 0) limit.rlim_cur = before;
  constexpr rlim_t kEnough = 1u << 30;
  return static_cast<std::size_t>(std::min(limit.rlim_cur, kEnough));
}

std::size_t sessions_that_fit(std::size_t descriptors, std::size_t connections) {
  const std::size_t taken = kOwn + connections;
  return descriptors <= taken ? 0 : (descriptors - taken) / kPerSession;
}

void make_records(const boost::asio::any_io_executor& loop, std::size_t count) {
  const UniqueFd event(check_syscall("eventfd", ::eventfd(0, EFD_CLOEXEC)));
  std::vector<boost::asio::posix::stream_descriptor> watched;
  watched.reserve(count);
  while (watched.size() < count) {
    watched.emplace_back(loop, duplicate(event.get(), "an event").release());
  }
}

std::size_t report_room(std::size_t descriptors, const model::Config& config) {
  const std::size_t fit =
      sessions_that_fit(descriptors, static_cast<std::size_t>(config.daemon.max_connections));
  const auto allowed = static_cast<std::size_t>(config.box.limits.max_sessions);
  log::info("room for sessions", "sessions", fit, "descriptors", descriptors);
  if (fit >= allowed) return allowed;
  log::warning("descriptors will not suffice for the sessions that are allowed", "max_sessions",
               allowed, "sessions", fit, "mend",
               "raise LimitNOFILE, or the hard limit of `ulimit -n`");
  return fit;
}

}  // namespace caisson::daemon
