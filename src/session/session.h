#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/cancellation.h"
#include "async/task.h"
#include "async/task_group.h"
#include "async/turns.h"
#include "backend/box.h"
#include "backend/run.h"
#include "base/clock.h"
#include "model/exec.h"
#include "model/session_info.h"
#include "session/box_pool.h"
#include "session/command_check.h"
#include "session/kept_session.h"

namespace caisson::session {

// How sessions behave; the same for all of them.
struct Settings {
  std::size_t max_sessions = 64;
  std::chrono::seconds ttl{300};
  std::chrono::seconds persistent_idle_limit{0};  // 0: persistent sessions never expire
  std::size_t max_output_bytes = 1u << 20;        // kept of each stream of an exec
  std::size_t max_command_bytes = 16u << 20;
  std::size_t pooled_kinds = 2;                // 0: no boxes are made ahead
  bool park_shells = true;                     // start the next exec's shell ahead
  std::chrono::seconds parked_shell_idle{10};  // how long a shell waits for a command
  // The kernel gives out the lowest number that is free: from this one on, descriptors are for
  // commands, and no shell is started ahead.
  std::size_t scarce_descriptor = std::numeric_limits<std::size_t>::max();
};

// One exec: which session and box, the command in it, and how it is to be run.
struct ExecRequest {
  model::BoxRequest asked;
  model::ExecOptions options;
  std::shared_ptr<backend::OutputViewer> viewer = nullptr;
  std::shared_ptr<Cancellation> cancellation = nullptr;
  std::shared_ptr<bool> begun = nullptr;  // true as soon as anything of the command may happen
};

// A name that holds a box across calls. Execs run one after the other, in the order in which they
// came. The registry makes, finds and closes sessions.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(const boost::asio::any_io_executor& executor, const Settings& settings,
          std::string backend_name, std::string id, model::BoxSettings box, ReadyBox ready);
  // One that a daemon before us had.
  Session(const boost::asio::any_io_executor& executor, const Settings& settings,
          std::string backend_name, KeptSession kept, std::unique_ptr<backend::Box> box);

  const std::string& id() const { return id_; }
  const model::BoxSettings& box_settings() const { return box_settings_; }
  model::SessionInfo info() const;
  const backend::Box& box() const { return *box_; }
  // For the daemon after us; `handover` is that of the box.
  KeptSession kept(const backend::Handover& handover) const;
  bool alive() const { return box_->alive(); }
  void check_open() const {  // throws session_not_found
    if (closed_) throw_closed();
  }
  // An exec is at work or waits for its turn, or something else holds the session.
  bool in_use() const { return users_ > 0; }
  Deadline last_used() const { return last_used_; }
  // It is used now. The keeper hears of it with the next round of housekeeping, the store never.
  void touch();
  bool has_parked_shell() const { return parked_ && turns_.free(); }
  std::uint64_t execs() const { return execs_; }

  // Keeps a session from being reaped while it lives, and counts as a use at both ends.
  class Use {
   public:
    // One that does not touch keeps the session while it lasts, and no longer.
    explicit Use(std::shared_ptr<Session> session, bool touches = true)
        : session_(std::move(session)), touches_(touches) {
      ++session_->users_;
      if (touches_) session_->touch();
    }
    Use(Use&&) = default;
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (!session_) return;
      --session_->users_;
      if (touches_) session_->touch();
    }
    Session& operator*() const { return *session_; }
    Session* operator->() const { return session_.get(); }
    const std::shared_ptr<Session>& get() const { return session_; }

   private:
    std::shared_ptr<Session> session_;
    bool touches_;
  };

  // Throws session_not_found when the session is closed meanwhile, box_lost when its box ends,
  // cancelled when the caller wished so. A command that was timed out is a result; what else its
  // timeout ends is the caller's to do.
  Task<model::ExecResult> exec(ExecRequest request);

  // Shows these extra mounts in the living box and hides those that are not among them; the latter,
  // unless it is to be at once, only while nobody besides the caller, who holds a use, is at work
  // in the session. What failed is as it was, what was done before it stays.
  Task<void> follow(std::vector<model::MountSpec> wanted, bool at_once);

  // A program of ours in the box, beside the execs: files go in and out this way.
  Task<backend::StartedCommand> start_beside(backend::ProcessSpec process,
                                             std::vector<UniqueFd> more);

  // Throws command_not_started, with what is there instead, when the box has no such command.
  Task<void> require_command(CommandQuestion question);

  // A program that may outlive the daemon; and those of a daemon before us, by their ids.
  Task<std::unique_ptr<backend::Process>> start_process(backend::ProcessSpec process,
                                                        backend::Stdio stdio);
  std::unique_ptr<backend::Process> find_process(std::uint64_t id) {
    return box_->find_process(id);
  }
  void end_unclaimed_processes() { box_->end_unclaimed(); }

  Task<backend::BoxUsage> usage() { return box_->usage(); }

  // Lets go of a shell that has waited for too long.
  void rest();

  // Ends everything in the box, execs included; they fail with session_not_found.
  Task<void> close();

 private:
  Task<backend::RunResult> run(ExecRequest& request);
  void park_soon(std::uint64_t after);
  void notice_scarcity(const backend::StartedCommand& command);
  Task<void> park(std::uint64_t after);
  model::ExecResult result_of(const ExecRequest& request, const backend::RunResult& run) const;
  std::string lost_sentence(std::string_view reason) const;
  [[noreturn]] void throw_closed() const;

  boost::asio::any_io_executor executor_;
  const Settings& settings_;
  const std::string backend_name_;
  const std::string id_;
  model::BoxSettings box_settings_;  // only its extra mounts ever change
  std::unique_ptr<backend::Box> box_;
  WaitingShell parked_;
  Deadline parked_at_{};
  ShellSettings next_settings_;  // what the last exec had, and the next one probably has
  Turns turns_;
  bool closed_ = false;
  bool parking_ = false;
  bool descriptors_scarce_ = false;
  std::size_t users_ = 0;
  std::uint64_t execs_ = 0;
  Deadline last_used_;
  model::Timestamp created_at_;
  model::Timestamp last_used_at_;
  TaskGroup tasks_;
};

}  // namespace caisson::session
