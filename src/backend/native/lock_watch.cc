// Ends boxes that fill the kernel's memory with file locks: see lock_census.h.
#include "async/blocking.h"
#include "async/sleep.h"
#include "backend/native/lock_census.h"
#include "backend/native/native_impl.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

namespace caisson::backend::native {

namespace {

// A box with one processor takes less than a million locks in this time, 200 MB of them. A look at
// the host's memory costs some 30 us.
constexpr auto kInterval = std::chrono::seconds(1);
constexpr int kMostAtOnce = 16;  // boxes ended before the next look

}  // namespace

void Native::Impl::watch_locks() {
  if (watches.size() == 0)
    watches.spawn("watch over file locks", watch_until_idle(weak_from_this()));
}

// Holds the backend only while it looks, and ends when there are no boxes.
Task<void> Native::Impl::watch_until_idle(std::weak_ptr<Impl> backend) {
  KernelGrowth growth;
  for (;;) {
    if (const std::shared_ptr<Impl> self = backend.lock()) {
      std::erase_if(self->boxes, [](const Living& box) { return box.resources.expired(); });
      if (self->boxes.empty()) co_return;
      if (growth.worth_a_look(read_file("/proc/meminfo"))) co_await self->end_lock_hoarders();
    } else {
      co_return;
    }
    co_await sleep_for(kInterval);
  }
}

Task<void> Native::Impl::end_lock_hoarders() {
  if (!pool) pool.emplace(1);
  for (int ended = 0; ended < kMostAtOnce; ++ended) {
    std::set<pid_t> guests;
    for (const Living& box : boxes) {
      const auto resources = box.resources.lock();
      if (!resources || !resources->end_reason().empty()) continue;  // it is ending already
      if (resources->guest() > 0) guests.insert(resources->guest());
    }
    auto look = [guests] { return find_lock_hoarder(guests); };
    const std::optional<LockCensus::Culprit> culprit =
        co_await run_blocking(*pool, std::move(look));
    if (!culprit) co_return;
    for (const Living& box : boxes) {
      const auto resources = box.resources.lock();
      if (!resources || resources->guest() != culprit->guest) continue;
      log::warning("a box is ended because it holds too many file locks", "box", resources->name(),
                   "most", kMostLocks);
      resources->end(str("it held more than ", kMostLocks,
                         " file locks, which take memory of the host that no limit counts"));
    }
  }
}

}  // namespace caisson::backend::native
