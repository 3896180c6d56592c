#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/cancellation.h"
#include "async/event.h"
#include "async/task.h"
#include "async/task_group.h"
#include "base/clock.h"
#include "session/answer.h"
#include "session/registry.h"
#include "store/async_store.h"

namespace caisson::session {

struct ExecutionSettings {
  std::chrono::seconds ttl{600};  // of an answer, from the end of its command or our start
  std::size_t max_count = 1000;   // running ones included
  std::size_t max_bytes = 64u << 20;
};

// Expiry is measured on the one; the other is shown.
struct ExecutionClocks {
  std::function<Deadline()> steady;
  std::function<model::Timestamp()> wall;
};
ExecutionClocks real_clocks();

// Execs that their callers have given a name, the request id, so that they may ask again: a
// repeated request runs nothing twice. Each is recorded in the store before its command begins and
// again with its answer before anybody gets that, so it holds across a killed daemon as well.
//
// Answers are kept until their time is over or, oldest first, until there are too many of them;
// deleting a session forgets its own. A command that could not begin is forgotten at once.
class Executions {
  struct Run;

 public:
  // Everything referred to outlives this. The registry tells of deleted sessions from now on.
  Executions(boost::asio::any_io_executor executor, Registry& sessions, store::AsyncStore& store,
             ExecutionSettings settings, ExecutionClocks clocks = real_clocks());

  // Reads what the daemon before this one left. What it had running is interrupted.
  Task<void> start();
  // After the registry has stopped. A command that this ended stays recorded as begun.
  Task<void> stop();

  // A caller's share in an execution. A command that is not kept without callers is cancelled when
  // the last of them has left.
  class Share {
   public:
    Share(std::shared_ptr<Run> run, bool repeated);
    Share(Share&&) = default;
    Share& operator=(Share&&) = delete;
    ~Share() { leave(); }

    bool repeated() const { return repeated_; }  // the command was begun by an earlier request
    // Waits for the end. Throws what kept the command from beginning.
    Task<Answer> answer() const { return wait_for(run_); }
    void leave();  // the caller has gone; somebody may still wait for the answer

   private:
    std::shared_ptr<Run> run_;
    bool repeated_;
    bool here_ = true;
  };

  // The execution of options.request_id in spec.session_id: begun now, at work, or over. The viewer
  // sees only what is begun now. Returns when it is recorded. Throws request_id_conflict when the
  // id belongs to another request, interrupted when nobody knows how far the command came,
  // capacity_reached, and what the store throws: then nothing has been run.
  Task<Share> begin(ExecRequest request);

  struct View {
    store::ExecutionState state = store::ExecutionState::running;
    Answer answer;  // when it is completed or failed
  };
  Task<View> get(std::string session_id, std::string request_id);  // throws not_found

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  using Id = store::ExecutionId;
  using State = store::ExecutionState;
  struct Entry {
    std::string request_hash;
    State state = State::running;
    model::Timestamp created_at;
    std::shared_ptr<Run> run;  // while it runs, and while its answer is nowhere else
    std::size_t bytes = 0;
    Deadline expires = Deadline::max();
  };

  static Task<Answer> wait_for(std::shared_ptr<Run> run);
  Task<Share> repeat(Id id, std::string request_hash);
  Task<void> work(Id id, std::shared_ptr<Run> run, ExecRequest request);
  Task<bool> record(Id id, std::shared_ptr<Run> run);
  Task<void> finish(Id id, std::shared_ptr<Run> run, Answer answer);
  Task<void> forget_unbegun(Id id, std::shared_ptr<Run> run, std::exception_ptr failure);
  Task<void> forget_session(std::string session_id);
  Task<Answer> stored_answer(Id id);
  Entry* find_own(const Id& id, const std::shared_ptr<Run>& run);
  void end_entry(const Id& id, State state, std::size_t bytes, Deadline expires);
  void erase(const Id& id);
  void drop_later(const std::vector<Id>& ids);
  std::shared_ptr<Run> ended_run(Answer answer) const;
  void make_room(std::size_t count, std::size_t bytes);
  void expire();
  Task<void> run_housekeeping();

  boost::asio::any_io_executor executor_;
  Registry& sessions_;
  store::AsyncStore& store_;
  const ExecutionSettings settings_;
  const ExecutionClocks clocks_;
  std::map<Id, Entry> entries_;
  std::list<Id> ended_;      // the next to expire first
  std::vector<Id> dropped_;  // forgotten here, still in the store
  std::size_t bytes_ = 0;    // of all answers
  bool stopping_ = false;
  boost::asio::steady_timer housekeeping_timer_;
  TaskGroup tasks_;
};

}  // namespace caisson::session
