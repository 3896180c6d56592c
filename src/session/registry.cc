#include "session/registry.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "session/compare.h"
#include "session/tenancy.h"

namespace caisson::session {

namespace {

// An answer waits so long for the end of its box: a process that a host has frozen does not end.
constexpr auto kLongestEnd = std::chrono::seconds(10);

class Counted {
 public:
  Counted(std::size_t& count, Signal& uncounted) : count_(count), uncounted_(uncounted) {
    ++count_;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    --count_;
    uncounted_.notify();
  }

 private:
  std::size_t& count_;
  Signal& uncounted_;
};

}  // namespace

Registry::Registry(boost::asio::any_io_executor executor, backend::Backend& backend,
                   store::AsyncStore* store, Settings settings, backend::Keeper* keeper)
    : executor_(std::move(executor)),
      backend_(backend),
      store_(store),
      keeper_(keeper),
      settings_(settings),
      pool_(executor_, backend_, settings_.pooled_kinds),
      made_(executor_),
      housekeeping_timer_(executor_),
      adoptions_(executor_),
      closings_(executor_),
      tasks_(executor_) {}

Task<void> Registry::stop() {
  stopping_ = true;
  co_await tasks_.stop();
  co_await adoptions_.finish();  // to end a box takes its owner
  for (;;) {
    const auto all = entries_;
    for (const auto& [id, entry] : all) begin_closing(entry);
    co_await closings_.finish();
    // A creation that was under way has noticed by now that it came too late, or soon will.
    if (being_made_ == 0) break;
    co_await made_.wait();
  }
  co_await pool_.stop();
}

Registry::EntryPtr Registry::entry_of(const std::string& id) {
  EntryPtr& entry = entries_[id];
  if (!entry) entry = std::make_shared<Entry>(executor_);
  return entry;
}

// A name of which nothing is left takes no room.
void Registry::forget(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const Entry& entry = *found->second;
  if (entry.session || entry.returning || entry.closing || entry.dormant) return;
  if (!entry.operations.free()) return;
  entries_.erase(found);
}

void Registry::throw_not_found(const std::string& id) {
  throw Error(ErrorCode::session_not_found, str("session ", printable(id), " not found"));
}

Task<SessionView> Registry::create(model::BoxRequest request) {
  std::string image = request.box.image;
  std::optional<Session::Use> use;
  use.emplace(co_await get_or_create(std::move(request)));
  const std::shared_ptr<Session> session = use->get();
  use.reset();  // what is shown is how it is without us
  SessionView view = view_of(*session);
  view.info.box.image = std::move(image);  // the caller's spelling of it, not that of who made it
  co_return view;
}

Task<model::ExecResult> Registry::exec(ExecRequest request) {
  if (request.asked.command.cmd.size() > settings_.max_command_bytes) {
    throw Error(ErrorCode::payload_too_large,
                str("cmd is larger than ", settings_.max_command_bytes,
                    " bytes: put it into a file of the session and run that"));
  }
  const std::string id = request.asked.session_id;
  const bool end_session = request.options.on_timeout == model::OnTimeout::end_session;
  model::BoxRequest asked = request.asked;
  const Session::Use session = co_await get_or_create(std::move(asked));
  model::ExecResult result = co_await session->exec(std::move(request));
  ++execs_;
  if (result.oom) ++ooms_;
  if (result.status == model::ExecStatus::timed_out) {
    ++timeouts_;
    const auto found = entries_.find(id);
    if (end_session && found != entries_.end() && found->second->session == session.get()) {
      const std::shared_ptr<Event> closed = begin_closing(found->second);
      if (closed) co_await closed->wait_until(Clock::now() + kLongestEnd);
    }
  }
  co_return result;
}

Task<Session::Use> Registry::get_or_create(model::BoxRequest request) {
  const std::string id = request.session_id;
  const EntryPtr entry = entry_of(id);
  std::optional<Turns::Turn> turn = co_await entry->operations.take();
  const Forget forget{*this, id, turn};

  co_await wait_for_return(entry);
  if (stopping_) throw Error(ErrorCode::runtime_unavailable, "Box runtime is shutting down");
  end_if_expired(entry);
  while (entry->closing) {
    const std::shared_ptr<Event> closing = entry->closing;
    co_await closing->wait();
  }
  // Of one that has no box there are only the settings of its last use, and the next may have
  // others.
  if (entry->session) {
    require_compatible(entry->session->box_settings(), request);
    if (entry->session->alive()) {
      Session::Use use(entry->session);
      if (request.mounting == model::Mounting::unsaid) co_return use;
      try {
        co_await follow(use, request.box.extra_mounts, false);
        co_return use;
      } catch (const Error& error) {
        // Hosts whose boxes follow expect another box where this one cannot.
        const bool can_follow = error.code() != ErrorCode::session_conflict;
        if (can_follow || request.mounting != model::Mounting::follows) throw;
      }
    }
    const std::shared_ptr<Event> closed = begin_closing(entry);
    if (closed) co_await closed->wait();
  }
  co_return Session::Use(co_await make_session(entry, std::move(request)));
}

// For the daemon after us, whether the box is there then or not.
Task<void> Registry::note(const Session& session) {
  const model::SessionInfo info = session.info();
  store::SessionRecord record{.session_id = session.id(),
                              .settings = session.box_settings(),
                              .backend_name = info.backend_name,
                              .backend_session_id = info.backend_session_id,
                              .created_at = info.created_at,
                              .last_used_at = info.last_used_at};
  co_await store_->put_session(std::move(record));
}

void Registry::check_capacity() const {
  if (sessions_ + returning_ + being_made_ + being_closed_ >= settings_.max_sessions) {
    throw Error(ErrorCode::capacity_reached,
                str("Box session capacity reached (", settings_.max_sessions, ")"));
  }
}

Task<std::shared_ptr<Session>> Registry::make_session(EntryPtr entry, model::BoxRequest request) {
  expire();
  check_capacity();
  const Counted counted(being_made_, made_);
  const Deadline started = Clock::now();
  model::BoxSettings box = std::move(request.box);
  box.name_space = name_space_of(request.session_id);
  std::vector<model::MountSpec> wanted = box.extra_mounts;
  std::erase_if(box.extra_mounts,
                [](const model::MountSpec& mount) { return mount.is_artifact(); });
  model::BoxSettings at_first = box;
  ReadyBox ready = co_await pool_.acquire(std::move(at_first));
  auto session =
      std::make_shared<Session>(executor_, settings_, std::string(backend_.name()),
                                std::move(request.session_id), std::move(box), std::move(ready));
  std::exception_ptr failure;
  try {
    co_await session->follow(std::move(wanted), true);
    if (stopping_) throw Error(ErrorCode::runtime_unavailable, "Box runtime is shutting down");
    // Of a session that ends with the daemon there is nothing to keep.
    if (store_ != nullptr && session->box_settings().persistent) {
      co_await note(*session);
    } else if (store_ != nullptr && entry->dormant) {
      co_await store_->remove_session(session->id());
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    co_await session->close();
    std::rethrow_exception(failure);
  }
  entry->dormant.reset();
  entry->session = session;
  ++sessions_;
  keep(*session);
  ++created_;
  housekeeping_timer_.cancel_one();
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - started);
  log::info("session made", "session", session->id(), "box", session->box().id(), "us",
            took.count());
  co_return session;
}

// From here on the name has no session. The work goes on whoever waits for it; null: there is
// nothing to end.
std::shared_ptr<Event> Registry::begin_closing(EntryPtr entry) {
  if (!entry->session) return entry->closing;
  std::shared_ptr<Session> session = std::exchange(entry->session, nullptr);
  --sessions_;
  entry->closing = std::make_shared<Event>(executor_);
  std::shared_ptr<Event> done = entry->closing;
  ++being_closed_;
  closings_.spawn("close a session", close(std::move(entry), std::move(session), done));
  return done;
}

Task<void> Registry::close(EntryPtr entry, std::shared_ptr<Session> session,
                           std::shared_ptr<Event> done) {
  const std::string id = session->id();
  std::string failure;
  if (keeper_ != nullptr) keeper_->drop(kept_session_name(id));
  try {
    co_await session->close();
    if (end_handler_) co_await end_handler_(id);
    // Persistent sessions outlive the daemon, not their deletion.
    if (store_ != nullptr && session->box_settings().persistent && !stopping_) {
      co_await store_->remove_session(id);
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  --being_closed_;
  entry->closing.reset();
  done->set();
  forget(id);
  if (failure.empty()) {
    log::info("session closed", "session", id);
  } else {
    log::error("session not closed cleanly", "session", id, "error", failure);
  }
}

Task<void> Registry::remove(std::string id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) throw_not_found(id);
  const EntryPtr entry = found->second;
  {
    const std::optional<Turns::Turn> turn = co_await entry->operations.take();
    co_await wait_for_return(entry);
    const bool dormant = std::exchange(entry->dormant, std::nullopt).has_value();
    const std::shared_ptr<Event> closed = begin_closing(entry);
    if (closed) {
      co_await closed->wait();
    } else if (!dormant) {
      throw_not_found(id);
    } else if (store_ != nullptr) {
      co_await store_->remove_session(id);
    }
    if (removal_handler_) co_await removal_handler_(id);
  }
  forget(id);
}

Task<void> Registry::remove_all(std::function<bool(const std::string& id)> matches) {
  std::vector<std::string> names;
  for (const auto& [id, entry] : entries_) {
    if (matches(id)) names.push_back(id);
  }
  TaskGroup removals(executor_);
  for (std::string& name : names) {
    removals.spawn("remove a session", remove_if_there(std::move(name)));
  }
  co_await removals.finish();
}

Task<void> Registry::remove_if_there(std::string id) {
  try {
    co_await remove(std::move(id));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::session_not_found) throw;
  }
}

Session::Use Registry::use(const std::string& id, bool touches) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second->session) throw_not_found(id);
  return Session::Use(found->second->session, touches);
}

SessionView Registry::view_of(const Session& session) {
  return {.info = session.info(),
          .extra_mounts = session.box_settings().extra_mounts,
          .alive = session.alive(),
          .in_use = session.in_use(),
          .execs = session.execs(),
          .isolation = session.box().isolation()};
}

bool Registry::contains(const std::string& id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  const Entry& entry = *found->second;
  return entry.session || entry.returning || entry.dormant;
}

std::optional<SessionView> Registry::find(const std::string& id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = *found->second;
  if (entry.session) return view_of(*entry.session);
  if (entry.returning) return view_of(*entry.returning);
  if (!entry.dormant) return std::nullopt;
  SessionView view{.info = {.session_id = id, .box = *entry.dormant},
                   .extra_mounts = entry.dormant->extra_mounts,
                   .alive = false};
  view.info.backend_name = backend_.name();
  return view;
}

SessionView Registry::get(const std::string& id) const {
  std::optional<SessionView> view = find(id);
  if (!view) throw_not_found(id);
  return std::move(*view);
}

std::vector<SessionView> Registry::list() const {
  std::vector<SessionView> views;
  for (const auto& [id, entry] : entries_) {
    if (std::optional<SessionView> view = find(id)) views.push_back(std::move(*view));
  }
  return views;
}

RegistryStatus Registry::status() const {
  RegistryStatus status{.sessions = sessions_,
                        .returning = returning_,
                        .being_made = being_made_,
                        .being_closed = being_closed_,
                        .pooled_boxes = pool_.ready(),
                        .pool_hits = pool_.hits(),
                        .pool_misses = pool_.misses(),
                        .created = created_,
                        .expired = expired_,
                        .execs = execs_,
                        .timeouts = timeouts_,
                        .ooms = ooms_};
  for (const auto& [id, entry] : entries_) {
    if (entry->session && entry->session->has_parked_shell()) ++status.parked_shells;
  }
  return status;
}

}  // namespace caisson::session
