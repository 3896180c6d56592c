// What a registry has in common with the daemons before and after it.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "session/kept_session.h"
#include "session/registry.h"

namespace caisson::session {

// A persistent session whose box is gone keeps its name and its settings, and gets a new box when
// it is used; of the others nothing is left to keep.
Task<void> Registry::start(backend::KeptEntries kept) {
  if (keeper_ != nullptr) keeper_->on_loss([this] { keep_all(); });
  TaskGroup adoptions(executor_);
  for (auto& [name, entry] : kept) {
    adoptions.spawn("take over a session", adopt(name, std::move(entry)));
  }
  co_await adoptions.finish();
  backend_.finish_adoption();
  if (store_ != nullptr) {
    for (store::SessionRecord& record : co_await store_->sessions()) {
      const EntryPtr entry = entry_of(record.session_id);
      if (!entry->session) entry->dormant = std::move(record.spec);
    }
  }
  tasks_.spawn("expire sessions", keep_house());
  pool_.warm_up();
}

// One that cannot be taken over is reported and ends: nothing is known of it that would be of use.
Task<void> Registry::adopt(std::string name, backend::KeptEntry kept) {
  std::string lost;
  try {
    if (!is_kept_session(name)) {
      throw Error(ErrorCode::protocol_error, "it is nothing that this version knows");
    }
    KeptSession told = read_kept_session(kept.data);
    model::BoxSpec spec = told.spec;
    std::string description = told.box;
    std::unique_ptr<backend::Box> box =
        co_await backend_.adopt(std::move(spec), std::move(description), std::move(kept.fds));
    const std::string id = told.spec.session_id;
    const EntryPtr entry = entry_of(id);
    entry->session = std::make_shared<Session>(executor_, settings_, std::string(backend_.name()),
                                               std::move(told), std::move(box));
    log::info("session taken over", "session", id, "box", entry->session->box().id());
  } catch (const Error& error) {
    lost = error.what();
  }
  if (lost.empty()) co_return;
  log::warning("kept entry lost", "entry", name, "error", lost);
  keeper_->drop(name);
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
  keep_all();
  co_await closings_.finish();
  co_await pool_.stop();
}

}  // namespace caisson::session
