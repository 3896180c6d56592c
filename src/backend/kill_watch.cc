#include "backend/kill_watch.h"

#include <boost/system/error_code.hpp>
#include <utility>

#include "backend/guest_box.h"
#include "base/error.h"
#include "base/log.h"

namespace caisson::backend {

namespace {

constexpr auto kAtOnce = std::chrono::seconds(1);

// Memory is given back before the end of a process is seen, at about a GiB in a third of a second.
Clock::duration time_to_give_back(BoxResources& resources) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  std::uint64_t held = 0;
  try {
    held = resources.usage().memory_bytes;
  } catch (const Error&) {
    // Its groups are gone: nothing is left to be given back.
  }
  return std::chrono::seconds(held / kGiB);
}

}  // namespace

KillWatch::KillWatch(const boost::asio::any_io_executor& executor,
                     std::shared_ptr<GuestProcessState> state,
                     std::shared_ptr<GuestChannel> channel, std::shared_ptr<BoxResources> resources)
    : timer_(executor),
      patience_(kAtOnce, Clock::now()),
      state_(std::move(state)),
      channel_(std::move(channel)),
      resources_(std::move(resources)) {}

void KillWatch::stop() {
  stopped_ = true;
  timer_.cancel();
}

void KillWatch::look_later() {
  timer_.expires_at(patience_.next_look());
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->look();
  });
}

void KillWatch::look() {
  if (stopped_ || state_->ended.is_set()) return;
  if (!patience_.over(Clock::now())) return look_later();
  // Most are gone by now, and nobody had to look what their boxes hold.
  if (!std::exchange(gives_back_, true)) {
    const Clock::duration more = time_to_give_back(*resources_);
    if (more > Clock::duration::zero()) {
      patience_ = Patience(more, Clock::now());
      return look_later();
    }
  }
  log::warning("a process was killed and has not ended; its box is destroyed");
  resources_->kill();
  channel_->close("the box was destroyed because a process in it was killed and did not end");
}

}  // namespace caisson::backend
