// Ends boxes that fill the kernel's memory with what no control group counts: see lock_census.h and
// netlink_census.h.
#include "async/blocking.h"
#include "async/sleep.h"
#include "backend/native/lock_census.h"
#include "backend/native/native_impl.h"
#include "backend/native/netlink_census.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

namespace caisson::backend::native {

namespace {

// A box with one processor takes less than a million locks in this time, 200 MB of them. A look at
// the host's memory costs some 30 us.
constexpr auto kInterval = std::chrono::seconds(1);
constexpr int kMostAtOnce = 16;  // boxes ended before the next look

struct Hoarder {
  pid_t guest = 0;  // 0: there is none,
  std::string hoard;
  bool looked_everywhere = true;  // as far as could be seen in the time
};

// May take some seconds.
Hoarder find_hoarder(const std::set<pid_t>& guests) {
  if (const std::optional<pid_t> guest = find_netlink_hoarder(guests)) {
    return {
        .guest = *guest,
        .hoard = str("left more than ", kMostNetlinkBytes >> 20, " MiB unread in netlink sockets")};
  }
  const LockLook look = look_for_lock_hoarder(guests);
  if (!look.culprit) return {.looked_everywhere = look.complete};
  return {.guest = look.culprit->guest, .hoard = str("held more than ", kMostLocks, " file locks")};
}

}  // namespace

void Native::Impl::watch_kernel_memory() {
  if (watches.size() > 0) return;
  watches.spawn("watch over kernel memory", watch_until_idle(weak_from_this()));
}

// Holds the backend only while it looks, and ends when there are no boxes.
Task<void> Native::Impl::watch_until_idle(std::weak_ptr<Impl> backend) {
  KernelGrowth growth;
  bool look_again = false;
  for (;;) {
    if (const std::shared_ptr<Impl> self = backend.lock()) {
      std::erase_if(self->boxes, [](const Living& box) { return box.resources.expired(); });
      if (self->boxes.empty()) co_return;
      const bool grown = growth.worth_a_look(read_file("/proc/meminfo"));
      if (grown || look_again) look_again = !co_await self->end_hoarders();
    } else {
      co_return;
    }
    co_await sleep_for(kInterval);
  }
}

Task<bool> Native::Impl::end_hoarders() {
  for (int ended = 0; ended < kMostAtOnce; ++ended) {
    std::set<pid_t> guests;
    for (const Living& box : boxes) {
      const auto resources = box.resources.lock();
      if (!resources || !resources->end_reason().empty()) continue;  // it is ending already
      if (resources->guest() > 0) guests.insert(resources->guest());
    }
    auto look = [guests] { return find_hoarder(guests); };
    const Hoarder found = co_await run_blocking(workers(), std::move(look));
    if (found.guest == 0) co_return found.looked_everywhere;
    for (const Living& box : boxes) {
      const auto resources = box.resources.lock();
      if (!resources || resources->guest() != found.guest) continue;
      log::warning("a box is ended because it fills the kernel's memory", "box", resources->name(),
                   "it", found.hoard);
      resources->end(
          str("it ", found.hoard, ", which take memory of the host that no limit counts"));
    }
  }
  co_return false;
}

}  // namespace caisson::backend::native
