#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/task.h"
#include "backend/box.h"
#include "backend/fake/files.h"
#include "backend/fake/stream.h"
#include "model/box_settings.h"

namespace caisson::backend::fake {

struct Streams {
  std::shared_ptr<Stream> in;
  std::shared_ptr<Stream> out;
  std::shared_ptr<Stream> err;
  std::vector<std::shared_ptr<Stream>> more = {};  // 3, 4, ...
};

// A process that exists only here: a coroutine of the loop, with the attributes of a real one.
struct Simulated {
  explicit Simulated(const boost::asio::any_io_executor& executor) : ended(executor) {}

  std::int64_t pid = 0;
  std::int64_t parent = 0;
  std::int64_t group = 0;
  ProcessSpec spec;
  Streams streams;
  std::uint64_t memory = 0;
  std::uint64_t peak_memory = 0;
  std::chrono::microseconds user_time{0};
  std::uint64_t oom_kills_before = 0;
  bool ends_with_parent = false;  // PR_SET_PDEATHSIG
  std::set<int> ignored;          // signals
  std::set<int> caught;           // signals that go to `pending` instead of ending the process
  std::deque<int> pending;

  std::optional<ProcessExit> exit;  // none in an ended process: the box ended first
  Event ended;
  boost::asio::cancellation_signal cancel;
};
using SimulatedPtr = std::shared_ptr<Simulated>;

// The kernel of one simulated box: its files, processes, signals and limits. Coroutines of the
// processes share it, so it lives until the last of them is gone.
class Machine : public std::enable_shared_from_this<Machine> {
 public:
  // Throws mount_refused.
  Machine(boost::asio::any_io_executor executor, const model::BoxSettings& settings);

  // A process that nobody in the box has started: the limit on processes does not keep it out.
  // Throws command_not_started, box_lost.
  SimulatedPtr start(ProcessSpec spec, Streams streams);

  // A child of `parent`, in its group. Throws command_not_started, or SystemError EAGAIN at the
  // limit.
  SimulatedPtr fork(Simulated& parent, ProcessSpec spec, Streams streams);

  void signal(Simulated& process, int signal_number);
  void signal_group(std::int64_t group, int signal_number);
  // kill(2) by number: a process, a group (negative), or all but the sender (-1). False: no such
  // one.
  bool signal_number(const Simulated& sender, std::int64_t target, int signal_number);

  // Adds to the memory of a process, or has the largest process of the box killed for it.
  Task<void> allocate(SimulatedPtr process, std::uint64_t bytes);

  // Lets the rest of the loop have a turn. Whatever ended the process ends the coroutine here.
  Task<void> yield() const;
  Task<void> sleep(std::chrono::microseconds duration) const;

  Files& files() { return files_; }
  BoxUsage usage() const;
  bool alive() const { return alive_; }

  // Ends the box at once; waiters of processes get box_lost.
  void lose();
  Task<void> destroy(std::chrono::milliseconds grace);

 private:
  SimulatedPtr launch(ProcessSpec spec, Streams streams, const Simulated* parent);
  std::string find_program(const ProcessSpec& spec) const;
  void end(Simulated& process, ProcessExit exit);
  void leave(Simulated& process);
  void returned(const SimulatedPtr& process, int exit_code);
  void signal_all(int signal_number);
  std::uint64_t memory_in_use() const;

  boost::asio::any_io_executor executor_;
  Files files_;
  const std::uint64_t memory_limit_;
  const std::uint64_t process_limit_;
  std::map<std::int64_t, SimulatedPtr> processes_;
  std::size_t coroutines_ = 0;
  std::int64_t next_pid_ = 2;  // 1 is the guest
  std::uint64_t peak_memory_ = 0;
  std::uint64_t oom_kills_ = 0;
  std::chrono::microseconds cpu_time_{0};
  bool alive_ = true;
  std::shared_ptr<Event> no_process_;  // set when a box that is being destroyed has none left
  std::shared_ptr<Event> no_coroutine_;
};

}  // namespace caisson::backend::fake
