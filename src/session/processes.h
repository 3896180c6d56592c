#pragma once
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "async/task.h"
#include "async/task_group.h"
#include "async/turns.h"
#include "backend/keeper.h"
#include "session/kept_process.h"
#include "session/process.h"
#include "session/registry.h"

namespace caisson::session {

struct ProcessSettings {
  std::size_t max_running = 64;
  // What is kept of those that ended, for those who ask how it went; the last one always is.
  std::size_t max_ended = 256;
  std::uint64_t max_ended_bytes = std::uint64_t{1} << 30;
  std::chrono::seconds retention{300};  // from the end, or from our start
};

// The long-lived processes of all sessions, by session and process id. They go with their session.
class Processes {
 public:
  // Everything referred to outlives it.
  Processes(ProcessContext context, Registry& sessions, ProcessSettings settings);

  // What a daemon before us left, before its sessions come back: each process does with its
  // session. Removes what belongs to nothing any more.
  void expect(backend::KeptEntries kept);
  // Once it is known which sessions may come back: processes of others are lost.
  void lose_homeless();
  // Leaves everything to the daemon after us.
  Task<void> abandon();
  // When all sessions have ended: forgets everything.
  Task<void> stop();

  // One that runs under this id is stopped first. Throws session_not_found, capacity_reached and
  // what ManagedProcess::start() throws.
  Task<std::shared_ptr<ManagedProcess>> start(std::string session_id,
                                              model::ManagedProcessSpec spec);

  // Throws session_not_found, managed_process_not_found.
  std::shared_ptr<ManagedProcess> get(const std::string& session_id,
                                      const std::string& process_id) const;
  std::vector<std::shared_ptr<ManagedProcess>> list(const std::string& session_id) const;

  // Stops it if it runs, and forgets it.
  Task<void> remove(std::string session_id, std::string process_id);
  void set_settings(ProcessSettings settings) { settings_ = settings; }  // from now on
  std::size_t running() const;
  std::size_t size() const { return processes_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;

  std::shared_ptr<Turns> turns_of(const Key& key);
  Task<void> remove_all(std::string session_id);
  Task<void> retain(std::shared_ptr<ManagedProcess> process);
  void limit_ended();
  // A process whose session is not back yet.
  struct Expected {
    KeptProcess told;
    std::vector<UniqueFd> fds;
  };
  void follow(const std::string& session_id, const std::shared_ptr<Session>& session);
  void adopt(const std::shared_ptr<Session>& session, Expected expected);
  void lose(const std::string& name, const std::string& reason);
  void remove_strangers(const std::set<std::string>& known);

  ProcessContext context_;
  Registry& sessions_;
  ProcessSettings settings_;
  std::map<Key, std::shared_ptr<ManagedProcess>> processes_;
  std::map<Key, std::weak_ptr<Turns>> turns_;              // start and remove, one at a time
  std::map<std::string, std::vector<Expected>> expected_;  // by session
  bool keeper_was_lost_ = false;
  std::size_t starting_ = 0;
  TaskGroup tasks_;
};

}  // namespace caisson::session
