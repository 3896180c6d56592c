// What is kept of executions, and for how long.
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"
#include "session/executions.h"

namespace caisson::session {

using store::ExecutionRecord;

ExecutionClocks real_clocks() {
  return {.steady = [] { return Clock::now(); }, .wall = [] { return model::now(); }};
}

// The wall clock may have been set meanwhile, and a record that is forgotten too early lets its
// command run twice: all are kept for their whole time from now on, in the order of their ends.
// Their number and their bytes are bounded all the same.
Task<void> Executions::start() {
  const Deadline expires = clocks_.steady() + settings_.ttl;
  std::vector<ExecutionRecord> interrupted;
  for (ExecutionRecord& record : co_await store_.executions()) {
    if (record.state == State::running) {
      record.state = State::interrupted;
      record.ended_at = clocks_.wall();
      interrupted.push_back(record);
    }
    entries_[record.id] = {.request_hash = std::move(record.request_hash),
                           .created_at = record.created_at};
    end_entry(record.id, record.state, static_cast<std::size_t>(record.answer_bytes), expires);
  }
  make_room(0, 0);
  std::erase_if(interrupted, [this](const auto& record) { return !entries_.contains(record.id); });
  try {
    std::vector<Id> dropped = std::exchange(dropped_, {});
    if (!interrupted.empty() || !dropped.empty()) {
      co_await store_.put_executions(std::move(interrupted), std::move(dropped));
    }
  } catch (const Error& error) {
    // They are known here all the same; the next start finds the records as they were.
    log::warning("request ids not brought up to date", "error", error.what());
  }
  tasks_.spawn("expire request ids", run_housekeeping());
}

Task<void> Executions::forget_session(std::string session_id) {
  std::vector<Id> ids;
  for (auto it = entries_.lower_bound(Id{session_id, ""});
       it != entries_.end() && it->first.session_id == session_id; ++it) {
    ids.push_back(it->first);
  }
  if (ids.empty()) co_return;
  for (const Id& id : ids) erase(id);
  try {
    co_await store_.remove_executions_of(session_id);
  } catch (const Error& error) {
    log::warning("records of request ids stay", "session", session_id, "error", error.what());
  }
}

// Null: its session was deleted meanwhile, and the id may be another command's by now.
Executions::Entry* Executions::find_own(const Id& id, const std::shared_ptr<Run>& run) {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.run == run ? &found->second : nullptr;
}

void Executions::end_entry(const Id& id, State state, std::size_t bytes, Deadline expires) {
  Entry& entry = entries_.at(id);
  entry.state = state;
  entry.bytes = bytes;
  entry.expires = expires;
  bytes_ += bytes;
  ended_.push_back(id);
}

void Executions::erase(const Id& id) {
  const auto found = entries_.find(id);
  bytes_ -= found->second.bytes;
  if (found->second.state != State::running) ended_.remove(id);
  entries_.erase(found);
}

// Those that are in use again by now stay.
void Executions::drop_later(const std::vector<Id>& ids) {
  for (const Id& id : ids) {
    if (!entries_.contains(id)) dropped_.push_back(id);
  }
}

void Executions::make_room(std::size_t count, std::size_t bytes) {
  while (!ended_.empty() &&
         (entries_.size() + count > settings_.max_count || bytes_ + bytes > settings_.max_bytes)) {
    dropped_.push_back(ended_.front());
    erase(dropped_.back());
  }
}

void Executions::expire() {
  const Deadline now = clocks_.steady();
  while (!ended_.empty() && entries_.at(ended_.front()).expires <= now) {
    dropped_.push_back(ended_.front());
    erase(dropped_.back());
  }
}

// Sleeps until the next answer expires; without any, until there is one.
Task<void> Executions::run_housekeeping() {
  while (!stopping_) {
    expire();
    if (!dropped_.empty()) {
      std::vector<Id> ids = std::exchange(dropped_, {});
      try {
        co_await store_.remove_executions(std::move(ids));
      } catch (const Error& error) {
        log::warning("records of request ids stay", "error", error.what());
      }
      continue;
    }
    housekeeping_timer_.expires_at(ended_.empty() ? Deadline::max()
                                                  : entries_.at(ended_.front()).expires);
    co_await housekeeping_timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
}

}  // namespace caisson::session
