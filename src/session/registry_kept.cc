// What a registry has in common with the daemons before and after it.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "session/kept_session.h"
#include "session/registry.h"

namespace caisson::session {

// A persistent session whose box is gone keeps its name and its settings, and gets a new box when
// it is used; of the others nothing is left to keep.
Task<void> Registry::start(backend::KeptEntries kept) {
  if (keeper_ != nullptr) {
    keeper_->on_loss([this] {
      keeper_was_lost_ = true;
      keep_all();
    });
  }
  std::vector<std::string> boxes = announce(kept);
  co_await backend_.begin_adoption(std::move(boxes));
  if (store_ != nullptr) {
    for (store::SessionRecord& record : co_await store_->sessions()) {
      const EntryPtr entry = entry_of(record.session_id);
      if (!entry->session && !entry->returning) entry->dormant = std::move(record.settings);
    }
  }
  for (const auto& [id, entry] : entries_) {
    if (!entry->returning) continue;
    std::vector<UniqueFd> fds = std::move(kept.at(kept_session_name(id)).fds);
    adoptions_.spawn("take over a session", adopt(id, std::move(fds)));
  }
  tasks_.spawn("expire sessions", run_housekeeping());
  pool_.warm_up();
}

// From here on their names are taken. Gives the descriptions of their boxes.
std::vector<std::string> Registry::announce(const backend::KeptEntries& kept) {
  std::vector<std::string> boxes;
  for (const auto& [name, entry] : kept) {
    try {
      if (!is_kept_session(name)) {
        throw Error(ErrorCode::protocol_error, "it is nothing that this version knows");
      }
      KeptSession told = read_kept_session(entry.data);
      if (name != kept_session_name(told.session_id)) {
        throw Error(ErrorCode::protocol_error, "it is kept under the name of another");
      }
      boxes.push_back(told.box);
      const EntryPtr named = entry_of(told.session_id);
      named->returning = std::make_shared<Returning>(executor_, std::move(told));
      ++returning_;
    } catch (const Error& error) {
      lose(name, error.what());
    }
  }
  return boxes;
}

// One that cannot be taken over is reported and ends: nothing is known of it that would be of use.
void Registry::lose(const std::string& name, const std::string& reason) {
  log::warning("kept entry lost", "entry", name, "error", reason);
  keeper_->drop(name);
}

Task<void> Registry::adopt(std::string id, std::vector<UniqueFd> fds) {
  const EntryPtr entry = entry_of(id);
  const std::shared_ptr<Returning> returning = entry->returning;
  std::unique_ptr<backend::Box> box;
  std::string lost;
  try {
    model::BoxSettings settings = returning->told.settings;
    std::string description = returning->told.box;
    box = co_await backend_.adopt(std::move(settings), std::move(description), std::move(fds));
  } catch (const Error& error) {
    lost = error.what();
  }
  if (box) {
    entry->session = std::make_shared<Session>(executor_, settings_, std::string(backend_.name()),
                                               std::move(returning->told), std::move(box));
    ++sessions_;
    // What the keeper was told is true, unless it is another one by now.
    entry->kept_use = entry->session->last_used();
    if (keeper_was_lost_) keep(*entry->session);
    log::info("session taken over", "session", id, "box", entry->session->box().id());
  } else {
    lose(kept_session_name(id), lost);
    const model::BoxSettings& settings = returning->told.settings;
    if (store_ != nullptr && settings.persistent) entry->dormant = settings;
  }
  if (return_handler_) return_handler_(id, entry->session);
  entry->returning.reset();
  --returning_;
  returning->over.set();
  forget(id);
}

Task<void> Registry::wait_for(std::string id) {
  const auto found = entries_.find(id);
  if (found != entries_.end() && found->second->returning) co_await wait_for_return(found->second);
}

Task<void> Registry::wait_for_return(EntryPtr entry) {
  while (entry->returning) {
    const std::shared_ptr<Returning> returning = entry->returning;
    co_await returning->over.wait();
  }
}

SessionView Registry::view_of(const Returning& returning) const {
  const KeptSession& told = returning.told;
  SessionView view{.info = {.session_id = told.session_id, .box = told.settings},
                   .extra_mounts = told.settings.extra_mounts,
                   .returning = true,
                   .execs = told.execs};
  view.info.backend_name = backend_.name();
  view.info.created_at = told.created_at;
  view.info.last_used_at = told.last_used_at;
  return view;
}

void Registry::keep(const Session& session) {
  if (keeper_ == nullptr) return;
  std::optional<backend::Handover> handover = session.box().handover();
  if (!handover) return;
  const std::string data = to_text(session.kept(*handover));
  keeper_->keep(kept_session_name(session.id()), data, std::move(handover->fds));
}

void Registry::keep_all() {
  for (const auto& [id, entry] : entries_) {
    if (!entry->session) continue;
    keep(*entry->session);
    entry->kept_use = entry->session->last_used();
  }
}

Task<void> Registry::abandon() {
  stopping_ = true;
  co_await tasks_.stop();
  co_await adoptions_.stop();  // those that are not back stay with the keeper
  keep_all();
  co_await closings_.finish();
  co_await pool_.stop();
}

}  // namespace caisson::session
