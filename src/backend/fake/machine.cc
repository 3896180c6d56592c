#include "backend/fake/machine.h"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <utility>

#include "async/sleep.h"
#include "backend/fake/program.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::fake {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

[[noreturn]] void throw_lost() {
  throw Error(ErrorCode::box_lost, "the box has ended; create a new one");
}

// Signals that leave a process as it is unless it asks for them. Stopping is not simulated.
bool ignored_by_default(int signal_number) {
  switch (signal_number) {
    case 0:
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
      return true;
    default:
      return false;
  }
}

}  // namespace

Machine::Machine(asio::any_io_executor executor, const model::BoxSettings& settings)
    : executor_(std::move(executor)),
      files_(settings),
      memory_limit_(static_cast<std::uint64_t>(settings.memory_mb) << 20),
      process_limit_(static_cast<std::uint64_t>(settings.pids_limit)) {}

SimulatedPtr Machine::start(ProcessSpec spec, Streams streams) {
  if (!alive_) throw_lost();
  return launch(std::move(spec), std::move(streams), nullptr);
}

SimulatedPtr Machine::fork(Simulated& parent, ProcessSpec spec, Streams streams) {
  if (processes_.size() >= process_limit_) throw SystemError("fork", EAGAIN);
  return launch(std::move(spec), std::move(streams), &parent);
}

SimulatedPtr Machine::launch(ProcessSpec spec, Streams streams, const Simulated* parent) {
  const auto refuse = [](std::string_view subject, std::string_view cause) {
    throw Error(ErrorCode::command_not_started, str("cannot start ", subject, ": ", cause));
  };
  if (spec.argv.empty()) refuse("a process", "no program is named");
  const std::string shown = printable(spec.argv.front());
  try {
    files_.make_directories(spec.cwd);
  } catch (const SystemError& error) {
    refuse(shown, str("working directory ", error.what()));
  }
  const std::string path = find_program(spec);
  if (files_.kind(path) == FileKind::missing) {
    refuse(shown, "no such program in the box");
  } else if (files_.kind(path) != FileKind::program) {
    refuse(shown, "permission denied: it is not an executable file");
  }
  const Program program = fake::find_program(files_, path);
  if (program == nullptr) refuse(shown, "the fake backend does not simulate this program");

  auto process = std::make_shared<Simulated>(executor_);
  process->pid = next_pid_++;
  process->parent = parent != nullptr ? parent->pid : 1;
  process->group = parent != nullptr ? parent->group : process->pid;
  process->spec = std::move(spec);
  process->streams = std::move(streams);
  process->oom_kills_before = oom_kills_;
  processes_.emplace(process->pid, process);
  ++coroutines_;
  auto done = [self = shared_from_this(), process](const std::exception_ptr&, int exit_code) {
    self->returned(process, exit_code);
  };
  Call call{shared_from_this(), process, process->spec.argv};
  if (program == run_shell && !path.ends_with("/sh")) call.argv = {"sh", path};  // a script
  asio::co_spawn(executor_, run_program(program, std::move(call)),
                 asio::bind_cancellation_slot(process->cancel.slot(), std::move(done)));
  return process;
}

std::string Machine::find_program(const ProcessSpec& spec) const {
  const std::string& name = spec.argv.front();
  if (name.starts_with('/')) return name;
  if (name.find('/') != std::string::npos) return str(spec.cwd, "/", name);
  std::string_view path = kDefaultPath;
  for (const std::string_view entry : spec.env) {
    if (entry.starts_with("PATH=")) path = entry.substr(5);
  }
  for (const std::string_view directory : split(path, ':')) {
    std::string candidate = str(directory.empty() ? spec.cwd : directory, "/", name);
    if (candidate.front() == '/' && files_.kind(candidate) == FileKind::program) return candidate;
  }
  return str("/nowhere/", name);
}

void Machine::signal(Simulated& process, int signal_number) {
  if (process.ended.is_set()) return;
  if (signal_number != SIGKILL) {
    if (process.ignored.contains(signal_number)) return;
    if (process.caught.contains(signal_number)) {
      process.pending.push_back(signal_number);
      return;
    }
    if (ignored_by_default(signal_number)) return;
  }
  ProcessExit exit;
  exit.signal = signal_number;
  end(process, exit);
}

void Machine::signal_group(std::int64_t group, int signal_number) {
  const auto all = processes_;  // ending a process changes the table
  for (const auto& [pid, process] : all) {
    if (process->group == group) signal(*process, signal_number);
  }
}

bool Machine::signal_number(const Simulated& sender, std::int64_t target, int signal_number) {
  bool found = target == 1;  // the guest is there, and nothing that a box does reaches it
  const auto all = processes_;
  for (const auto& [pid, process] : all) {
    const bool meant = target == -1  ? pid != sender.pid
                       : target < 0  ? process->group == -target
                       : target == 0 ? process->group == sender.group
                                     : pid == target;
    if (!meant) continue;
    found = true;
    signal(*process, signal_number);
  }
  return found;
}

void Machine::signal_all(int signal_number) {
  const auto all = processes_;
  for (const auto& [pid, process] : all) signal(*process, signal_number);
}

Task<void> Machine::allocate(SimulatedPtr process, std::uint64_t bytes) {
  process->memory += bytes;
  while (memory_in_use() > memory_limit_ && !processes_.empty()) {
    const auto smaller = [](const auto& a, const auto& b) {
      return a.second->memory < b.second->memory;
    };
    const SimulatedPtr victim =
        std::max_element(processes_.begin(), processes_.end(), smaller)->second;
    ++oom_kills_;
    signal(*victim, SIGKILL);
  }
  process->peak_memory = std::max(process->peak_memory, process->memory);
  peak_memory_ = std::max(peak_memory_, memory_in_use());
  co_await yield();
}

Task<void> Machine::yield() const {
  co_await asio::post(executor_, asio::use_awaitable);
}

Task<void> Machine::sleep(std::chrono::microseconds duration) const {
  co_await sleep_for(duration);
}

BoxUsage Machine::usage() const {
  BoxUsage usage;
  usage.memory_bytes = memory_in_use();
  usage.peak_memory_bytes = std::max(peak_memory_, usage.memory_bytes);
  usage.processes = processes_.size();
  usage.oom_kills = oom_kills_;
  usage.cpu_time = cpu_time_;
  for (const auto& [pid, process] : processes_) usage.cpu_time += process->user_time;
  return usage;
}

void Machine::lose() {
  alive_ = false;
  const auto all = processes_;
  for (const auto& [pid, process] : all) leave(*process);
}

Task<void> Machine::destroy(std::chrono::milliseconds grace) {
  const auto self = shared_from_this();
  alive_ = false;
  if (grace.count() > 0 && !processes_.empty()) {
    if (!no_process_) no_process_ = std::make_shared<Event>(executor_);
    const auto ended = no_process_;
    signal_all(SIGTERM);
    co_await ended->wait_until(Clock::now() + grace);
  }
  lose();
  if (coroutines_ == 0) co_return;
  if (!no_coroutine_) no_coroutine_ = std::make_shared<Event>(executor_);
  const auto unwound = no_coroutine_;
  co_await unwound->wait();
}

void Machine::end(Simulated& process, ProcessExit exit) {
  exit.oom_kills = oom_kills_ - process.oom_kills_before;
  exit.user_time = process.user_time;
  exit.peak_memory_bytes = process.peak_memory;
  process.exit = exit;
  leave(process);
}

void Machine::leave(Simulated& process) {
  const auto entry = processes_.find(process.pid);
  if (entry == processes_.end()) return;
  const SimulatedPtr leaving = entry->second;
  processes_.erase(entry);
  leaving->memory = 0;
  leaving->streams = {};
  cpu_time_ += leaving->user_time;
  leaving->ended.set();
  if (processes_.empty() && no_process_) no_process_->set();
  // Keeps the process until the signal has been delivered, should this not be the loop's turn.
  asio::dispatch(executor_, [leaving] { leaving->cancel.emit(asio::cancellation_type::terminal); });
  const auto all = processes_;
  for (const auto& [pid, child] : all) {
    if (child->ends_with_parent && child->parent == leaving->pid) signal(*child, SIGKILL);
  }
}

void Machine::returned(const SimulatedPtr& process, int exit_code) {
  if (!process->ended.is_set()) {
    ProcessExit exit;
    exit.exit_code = exit_code & 0xff;
    end(*process, exit);
  }
  if (--coroutines_ == 0 && no_coroutine_) no_coroutine_->set();
}

std::uint64_t Machine::memory_in_use() const {
  std::uint64_t bytes = files_.bytes_in_memory();
  for (const auto& [pid, process] : processes_) bytes += process->memory;
  return bytes;
}

}  // namespace caisson::backend::fake
