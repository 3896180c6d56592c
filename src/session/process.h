#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/signal.h"
#include "async/task.h"
#include "async/task_group.h"
#include "async/turns.h"
#include "backend/box.h"
#include "backend/keeper.h"
#include "base/clock.h"
#include "base/seldom.h"
#include "base/unique_fd.h"
#include "model/managed_process.h"
#include "session/kept_process.h"
#include "session/process_streams.h"
#include "session/session.h"

namespace caisson::session {

// What processes need of their daemon. Outlives them.
struct ProcessContext {
  StreamsContext streams;
  std::filesystem::path directory;    // each process has a directory in it
  backend::Keeper* keeper = nullptr;  // null: processes end with the daemon
};

// A long-lived process of a session, or with a restart policy a series of them. While it lives, its
// session is not reaped. It ends when its first program does: what that left running is ended too.
class ManagedProcess : public std::enable_shared_from_this<ManagedProcess> {
 public:
  // Throws storage_full, box_lost, command_not_started; nothing is left then.
  static Task<std::shared_ptr<ManagedProcess>> start(const ProcessContext& context,
                                                     Session::Use session,
                                                     model::ManagedProcessSpec spec);
  // One that a daemon before us kept, in a session that was taken over.
  static std::shared_ptr<ManagedProcess> adopt(const ProcessContext& context, Session::Use session,
                                               KeptProcess told, std::vector<UniqueFd> fds);

  const model::ManagedProcessSpec& spec() const { return kept_.spec; }
  const std::string& session_id() const { return kept_.session_id; }
  const std::string& directory_name() const { return kept_.directory; }
  const std::optional<ProcessEnd>& last_end() const { return kept_.end; }
  std::uint64_t restarts() const { return kept_.restarts; }
  std::int64_t pid() const { return kept_.phase == ProcessPhase::running ? kept_.pid : 0; }
  model::ManagedProcessInfo info() const;
  bool running() const { return kept_.phase != ProcessPhase::ended; }
  const Event& ended() const { return ended_; }    // and all that it wrote is in its journals
  Deadline ended_on() const { return ended_on_; }  // once it has
  // Of what is kept of it, on the disk and by the keeper.
  std::uint64_t kept_bytes() const { return to_text(kept_).size() + streams_->bytes(); }

  ProcessStreams& streams() { return *streams_; }
  const journal::Journal& out() const { return streams_->out_journal(); }
  const journal::Journal& err() const { return streams_->err_journal(); }

  // Who is its client, one at a time; the others wait. One that takes over sends them all away.
  Turns& attachments() { return attachments_; }
  std::uint64_t takeovers() const { return takeovers_; }
  void take_over() {
    ++takeovers_;
    taken_over_.notify();
  }
  Task<void> taken_over() { return taken_over_.wait(); }

  // Its client gave it something or took something from it: its session is in use.
  void touch() {
    if (session_) (*session_)->touch();
  }
  // Which notices about its lines are due.
  Seldom& line_notices() { return line_notices_; }

  void signal(int number);
  // Closes its input, SIGTERM (at a terminal SIGHUP), up to five seconds, SIGKILL to all that it
  // started.
  Task<void> stop();
  // Removes its files. Only when it has ended.
  Task<void> discard();
  // Leaves it to the daemon after us.
  Task<void> abandon();
  // Tells the keeper, again.
  void keep() const;

 private:
  ManagedProcess(const ProcessContext& context, Session::Use session, KeptProcess kept);
  std::filesystem::path directory() const { return context_.directory / kept_.directory; }
  std::string name() const;
  Task<void> launch();
  Task<void> live();
  Task<ProcessEnd> wait_for_end();
  Task<bool> wait_to_restart();
  Task<void> end_group();
  bool restarts_after(const ProcessEnd& end) const;

  const ProcessContext& context_;
  std::optional<Session::Use> session_;  // while it lives
  KeptProcess kept_;
  std::unique_ptr<ProcessStreams> streams_;
  std::unique_ptr<backend::Process> process_;
  Deadline launched_at_{};
  Deadline ended_on_{};
  std::chrono::milliseconds backoff_{0};
  Turns attachments_;
  std::uint64_t takeovers_ = 0;
  Signal taken_over_;
  Seldom line_notices_{std::chrono::minutes(1)};
  Event stopping_;
  Event ended_;
  TaskGroup tasks_;
};

// What its program starts with, "NAME=value".
std::vector<std::string> environment_of(const model::ManagedProcessSpec& spec);

}  // namespace caisson::session
