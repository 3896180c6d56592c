#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/unique_fd.h"
#include "model/box_settings.h"
#include "model/isolation.h"

namespace caisson::backend {

// The descriptors a process in a box gets. They travel to the box; the caller keeps the other ends.
// Never a descriptor of a host terminal or file: pass pipes and memory files.
struct Stdio {
  UniqueFd in;
  UniqueFd out;
  UniqueFd err;
  std::vector<UniqueFd> more = {};  // 3, 4, ...; at most five
};

// The size of a terminal, in characters.
struct TerminalSize {
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
  bool operator==(const TerminalSize&) const = default;
};

// A program to start in a box.
struct ProcessSpec {
  std::vector<std::string> argv;   // argv[0] is looked up in the PATH of `env` when it has no '/'
  std::vector<std::string> env;    // "NAME=value": the whole environment, see default_environment()
  std::string cwd = "/workspace";  // made, with its parents, when it does not exist and can be made
  // False: start() does not wait for the program to be executed. That it cannot be is then wait()'s
  // to report, and pid() stays 0. For short commands, whose end comes at once anyway.
  bool confirm_start = true;
  // Not before the process with this id has ended; 0: at once. A box may begin it sooner.
  std::uint64_t after = 0;
  // It has a terminal of the box instead of the descriptors it would get: see take_terminal().
  std::optional<TerminalSize> terminal = {};
  // It may outlive its owner: how it ended is kept in the box until settle().
  bool outlives_owner = false;
  // All that it ever starts can be ended with it: see kill_all().
  bool own_group = false;
  // With a group of its own: its limit, instead of the box's memory; 0: it has part in the box's.
  std::uint64_t memory_bytes = 0;
};

// How a process ended.
struct ProcessExit {
  int exit_code = 0;  // meaningful when signal == 0
  int signal = 0;     // the signal that ended it, or 0
  bool core_dumped = false;
  std::uint64_t oom_kills =
      0;  // processes of the box the kernel killed for memory while this one ran
  std::chrono::microseconds user_time{0};
  std::chrono::microseconds system_time{0};
  std::uint64_t peak_memory_bytes =
      0;  // largest resident set of the process and its waited-for children
  std::chrono::microseconds ago{0};  // when wait() told of it, the end was so long past
  bool operator==(const ProcessExit&) const = default;
};

enum class SignalTarget { process, group };

// A running process in a box. Dropping the object does not end the process; destroying the box
// does.
class Process {
 public:
  virtual ~Process() = default;
  virtual std::uint64_t id() const = 0;  // unique in its box, for the life of the box
  virtual std::int64_t pid() const = 0;  // as seen inside the box
  // The master of its terminal, once.
  virtual UniqueFd take_terminal() = 0;
  // Resolves once, when the process has ended. Throws box_lost when the box ends first. A process
  // that is killed and does not end takes its box with it, about a second later.
  virtual Task<ProcessExit> wait() = 0;
  // Sent in order with respect to start(); a process that is gone is not an error.
  virtual void signal(int signal_number, SignalTarget target) = 0;
  // SIGKILL to all of its group, whether it has ended itself or not. False while some of them are
  // left: call it again. Without a group of its own, or where the host has none, the process group
  // is what is killed, and nobody knows what is left.
  virtual bool kill_all() = 0;
  // A process that was started ahead is put to use: oom_kills count from here.
  virtual void put_to_use() = 0;
  // Its end has been noted for good: the box need not keep it any more.
  virtual void settle() = 0;
};

// What a box uses now.
struct BoxUsage {
  std::uint64_t memory_bytes = 0;
  std::uint64_t peak_memory_bytes = 0;
  std::uint64_t processes = 0;
  std::chrono::microseconds cpu_time{0};
  std::uint64_t oom_kills = 0;
};

// What the next owner of a box needs to go on with it, besides its settings: see Backend::adopt().
struct Handover {
  std::string description;  // the backend's own words
  std::vector<int> fds;     // borrowed
};

// One box. All methods are called on the event loop's thread.
class Box {
 public:
  virtual ~Box() = default;  // a box that was not destroyed is destroyed, without waiting

  virtual const std::string& id()
      const = 0;  // unique for the backend; `backend_session_id` to clients
  virtual const model::IsolationReport& isolation() const = 0;
  virtual bool alive() const = 0;

  // Throws command_not_started when the program cannot be executed (the message names it and the
  // reason), timeout when others in the box keep it from being executed, box_lost when the box is
  // gone.
  virtual Task<std::unique_ptr<Process>> start(ProcessSpec spec, Stdio stdio) = 0;

  virtual Task<BoxUsage> usage() = 0;

  // Shows another directory of the host in the box, or no longer, while what runs in it goes on.
  // It is judged as a mount of these settings would be. An artifact is verified and shown as a copy
  // that nobody can change; one that is shown already is shown anew. Throws mount_refused,
  // artifact_refused, isolation_unavailable, box_lost; session_conflict when the box has no place
  // for it: something is mounted there, or no directory can be made.
  virtual Task<void> show(model::BoxSettings settings, model::MountSpec mount) = 0;
  // Those who have something of it open keep that. What is not shown is no error.
  virtual Task<void> hide(model::MountSpec mount) = 0;

  // Nothing when it ends with its owner, whatever happens.
  virtual std::optional<Handover> handover() const = 0;

  // A process that was started with `outlives_owner`, by an owner before this one, by its id; also
  // one that has ended meanwhile. Nothing when the box knows of none.
  virtual std::unique_ptr<Process> find_process(std::uint64_t id) = 0;
  // After the last find_process(): those that nobody asked for are killed.
  virtual void end_unclaimed() = 0;

  // Ends every process: SIGTERM, up to `grace`, SIGKILL; then releases all the box holds. Zero
  // grace kills at once. Returns when nothing of the box is left. Calling it again does nothing.
  virtual Task<void> destroy(std::chrono::milliseconds grace) = 0;
};

}  // namespace caisson::backend
