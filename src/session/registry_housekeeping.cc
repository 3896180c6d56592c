// What a registry does by itself, in time.
#include <malloc.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/log.h"
#include "session/registry.h"

namespace caisson::session {

namespace {

// How often sessions are looked at: for expiry, and while there are shells that may rest.
constexpr auto kSlowRound = std::chrono::seconds(30);
constexpr auto kQuickRound = std::chrono::seconds(1);

// Thousands of sessions leave memory behind that nobody needs when they are gone.
void give_memory_back() {
  constexpr std::size_t kWorthIt = 16u << 20;
  if (::mallinfo2().fordblks > kWorthIt) ::malloc_trim(0);
}

}  // namespace

bool Registry::is_expired(const Session& session) const {
  if (session.in_use()) return false;
  const auto limit =
      session.box_settings().persistent ? settings_.persistent_idle_limit : settings_.ttl;
  if (limit.count() <= 0) return false;
  return Clock::now() - session.last_used() > limit;
}

void Registry::end_if_expired(EntryPtr entry) {
  if (!entry->session || !is_expired(*entry->session)) return;
  ++expired_;
  log::info("session expired", "session", entry->session->id());
  begin_closing(std::move(entry));
}

void Registry::expire() {
  std::vector<EntryPtr> expired;
  for (const auto& [id, entry] : entries_) {
    if (entry->session && is_expired(*entry->session)) expired.push_back(entry);
  }
  for (EntryPtr& entry : expired) end_if_expired(std::move(entry));
}

// Looks often while there are sessions whose shells may rest, seldom otherwise. A session that is
// made meanwhile wakes it.
Task<void> Registry::run_housekeeping() {
  while (!stopping_) {
    bool sessions = false;
    for (const auto& [id, entry] : entries_) {
      if (!entry->session) continue;
      sessions = true;
      entry->session->rest();
      if (entry->kept_use != entry->session->last_used()) {
        entry->kept_use = entry->session->last_used();
        keep(*entry->session);
      }
    }
    const auto round = std::clamp<std::chrono::seconds>(settings_.ttl, kQuickRound, kSlowRound);
    housekeeping_timer_.expires_after(sessions && settings_.park_shells ? kQuickRound : round);
    co_await housekeeping_timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    expire();
    give_memory_back();
  }
}

}  // namespace caisson::session
