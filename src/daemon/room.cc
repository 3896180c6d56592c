#include "daemon/room.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"

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

void report_room(std::size_t descriptors, const model::Config& config) {
  const std::size_t fit =
      sessions_that_fit(descriptors, static_cast<std::size_t>(config.daemon.max_connections));
  const auto allowed = static_cast<std::size_t>(config.box.limits.max_sessions);
  log::info("room for sessions", "sessions", fit, "descriptors", descriptors);
  if (fit >= allowed) return;
  log::warning("descriptors will not suffice for the sessions that are allowed", "max_sessions",
               allowed, "sessions", fit, "fix",
               "raise LimitNOFILE, or the hard limit of `ulimit -n`");
}

}  // namespace caisson::daemon
