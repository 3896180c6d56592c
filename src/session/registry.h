#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/signal.h"
#include "async/task.h"
#include "async/task_group.h"
#include "async/turns.h"
#include "backend/backend.h"
#include "backend/keeper.h"
#include "model/exec.h"
#include "model/session_info.h"
#include "session/box_pool.h"
#include "session/kept_session.h"
#include "session/session.h"
#include "store/async_store.h"

namespace caisson::session {

// What people and machines ask about a session that exists.
struct SessionView {
  model::SessionInfo info;
  std::vector<model::MountSpec> extra_mounts = {};
  bool alive = true;       // false: its box has ended; the next use makes a new one
  bool returning = false;  // a daemon before us had it, and its box is still being taken over
  bool in_use = false;
  std::uint64_t execs = 0;
  model::IsolationReport isolation;
};

struct RegistryStatus {
  std::size_t sessions = 0;
  std::size_t returning = 0;  // still being taken over from a daemon before us
  std::size_t being_made = 0;
  std::size_t being_closed = 0;
  std::size_t parked_shells = 0;
  std::size_t pooled_boxes = 0;
  std::uint64_t pool_hits = 0;
  std::uint64_t pool_misses = 0;
  std::uint64_t created = 0;
  std::uint64_t expired = 0;
  std::uint64_t execs = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t ooms = 0;
};

// All sessions of a daemon. Operations on one name happen one after the other, in the order in
// which they came; different names never wait for each other.
class Registry {
 public:
  // `store` may be null: then no settings of persistent sessions survive; `keeper` may be null:
  // then no boxes do. Everything referred to outlives the registry.
  Registry(boost::asio::any_io_executor executor, backend::Backend& backend,
           store::AsyncStore* store, Settings settings, backend::Keeper* keeper = nullptr);

  // Begins to take over what a previous daemon left with the keeper and in the store, to expire
  // sessions and to make boxes ahead. Sessions come back one by one, in no order: whoever asks for
  // one waits for it, and for no other.
  Task<void> start(backend::KeptEntries kept = {});
  // Leaves everything to the daemon after us; nothing can be used afterwards. Execs are cut off.
  Task<void> abandon();
  // Refuses new work, then ends every session, execs included.
  Task<void> stop();

  // See Backend.
  Task<std::string> provide(std::string image, std::string program) {
    return backend_.provide(std::move(image), std::move(program));
  }

  // The session of that name, made if there is none. Throws session_conflict when there is
  // one with other settings, capacity_reached, and what the backend throws.
  Task<SessionView> create(model::BoxRequest request);

  // Shows another directory of the host in a session that exists, or no longer; what runs in it
  // goes on. Throws session_not_found, session_conflict when it shows something else there or
  // cannot, not_found when it shows nothing there.
  Task<SessionView> show_mount(std::string id, model::MountSpec mount);
  Task<SessionView> hide_mount(std::string id, std::string mount_path);

  // The same, and a command in it. A timeout ends the session unless the request says otherwise.
  Task<model::ExecResult> exec(ExecRequest request);

  // When this session is back, or known to be lost; at once for any other. What follows here does
  // not wait.
  Task<void> wait_for(std::string id);

  // Holds a session that exists, for work in it that is no exec. Work that does not touch it does
  // not make it expire later. Throws session_not_found.
  Session::Use use(const std::string& id, bool touches = true);

  bool contains(const std::string& id) const;
  std::optional<SessionView> find(const std::string& id) const;
  SessionView get(const std::string& id) const;  // throws session_not_found
  std::vector<SessionView> list() const;         // by name

  // Waits for a creation that is under way, ends what runs, and returns when nothing is left.
  Task<void> remove(std::string id);
  // Called with the name when a session has been deleted, before anybody is told; not when it has
  // expired or was ended otherwise.
  void on_removal(std::function<Task<void>(std::string id)> handler) {
    removal_handler_ = std::move(handler);
  }

  // Called with the name when a session's box has ended for good, whatever the reason, before there
  // can be another one.
  void on_end(std::function<Task<void>(std::string id)> handler) {
    end_handler_ = std::move(handler);
  }

  // Called with each session of a daemon before us once it is back, before anybody else gets it;
  // null: it is lost.
  void on_return(std::function<void(const std::string& id, std::shared_ptr<Session>)> handler) {
    return_handler_ = std::move(handler);
  }

  // Ends every session whose name `matches`, and returns when nothing of them is left.
  Task<void> remove_all(std::function<bool(const std::string& id)> matches);

  // From now on; sessions that there are stay.
  void set_max_sessions(std::size_t count) { settings_.max_sessions = count; }

  bool stopping() const { return stopping_; }
  RegistryStatus status() const;
  const Settings& settings() const { return settings_; }

 private:
  // A session of a daemon before us whose box is being taken over.
  struct Returning {
    Returning(const boost::asio::any_io_executor& executor, KeptSession kept)
        : told(std::move(kept)), over(executor) {}
    KeptSession told;
    Event over;
  };

  // A name that something is known or going on about.
  struct Entry {
    explicit Entry(const boost::asio::any_io_executor& executor) : operations(executor) {}
    Turns operations;  // get-or-create and delete, one at a time
    std::shared_ptr<Session> session;
    std::shared_ptr<Returning> returning;       // until there is a session, or none
    std::shared_ptr<Event> closing;             // while a former session's box is being ended
    std::optional<model::BoxSettings> dormant;  // of a daemon before us, without a box
    Deadline kept_use{};                        // the use that the keeper knows of
  };
  using EntryPtr = std::shared_ptr<Entry>;

  // With the turn of whoever asked about a name, the name is forgotten when nothing came of it.
  struct Forget {
    Registry& registry;
    const std::string& name;
    std::optional<Turns::Turn>& turn;
    ~Forget() {
      turn.reset();
      registry.forget(name);
    }
  };

  EntryPtr entry_of(const std::string& id);
  void forget(const std::string& id);
  Task<Session::Use> get_or_create(model::BoxRequest request);
  Task<void> follow(const Session::Use& session, std::vector<model::MountSpec> mounts,
                    bool at_once);
  Task<std::shared_ptr<Session>> make_session(EntryPtr entry, model::BoxRequest request);
  std::shared_ptr<Event> begin_closing(EntryPtr entry);
  Task<void> close(EntryPtr entry, std::shared_ptr<Session> session, std::shared_ptr<Event> done);
  Task<void> remove_if_there(std::string id);
  std::vector<std::string> announce(const backend::KeptEntries& kept);
  Task<void> adopt(std::string id, std::vector<UniqueFd> fds);
  void lose(const std::string& name, const std::string& reason);
  static Task<void> wait_for_return(EntryPtr entry);
  SessionView view_of(const Returning& returning) const;
  void keep(const Session& session);
  Task<void> note(const Session& session);
  using ChangeMounts = std::function<void(std::vector<model::MountSpec>& mounts)>;
  Task<SessionView> change_mounts(std::string id, ChangeMounts change);
  void keep_all();
  Task<void> run_housekeeping();
  void expire();
  void end_if_expired(EntryPtr entry);
  bool is_expired(const Session& session) const;
  void check_capacity() const;
  [[noreturn]] static void throw_not_found(const std::string& id);
  static SessionView view_of(const Session& session);

  boost::asio::any_io_executor executor_;
  backend::Backend& backend_;
  store::AsyncStore* store_;
  backend::Keeper* keeper_;
  Settings settings_;
  BoxPool pool_;
  std::map<std::string, EntryPtr> entries_;
  std::size_t sessions_ = 0;   // entries that have one
  std::size_t returning_ = 0;  // entries that may get theirs back
  std::size_t being_made_ = 0;
  std::size_t being_closed_ = 0;
  std::uint64_t created_ = 0;
  std::uint64_t expired_ = 0;
  std::uint64_t execs_ = 0;
  std::uint64_t timeouts_ = 0;
  std::uint64_t ooms_ = 0;
  bool stopping_ = false;
  bool keeper_was_lost_ = false;
  std::function<void(const std::string& id, std::shared_ptr<Session>)> return_handler_;
  std::function<Task<void>(std::string id)> removal_handler_;
  std::function<Task<void>(std::string id)> end_handler_;
  Signal made_;  // or not: being_made_ went down
  boost::asio::steady_timer housekeeping_timer_;
  TaskGroup adoptions_;
  TaskGroup closings_;
  TaskGroup tasks_;
};

}  // namespace caisson::session
