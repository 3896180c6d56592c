#include "backend/fake/fake.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <utility>

#include "async/event.h"
#include "backend/fake/machine.h"
#include "backend/fake/stream.h"
#include "base/str.h"

namespace caisson::backend::fake {

// What the backend and its boxes have in common.
struct FakeState {
  explicit FakeState(boost::asio::any_io_executor where) : executor(std::move(where)) {}

  boost::asio::any_io_executor executor;
  std::map<std::uint64_t, std::pair<std::string, std::weak_ptr<Machine>>> machines;  // by age
  std::uint64_t created = 0;
  model::IsolationReport isolation;
  std::string unavailable;
  std::deque<Error> create_failures;
  std::deque<Error> start_failures;
  std::shared_ptr<Event> gate;  // creates wait for it while there is one
  std::size_t held = 0;
  bool stopped = false;
};

namespace {

void throw_next(std::deque<Error>& failures) {
  if (failures.empty()) return;
  const Error failure = failures.front();
  failures.pop_front();
  throw failure;
}

model::IsolationReport everything_simulated() {
  model::IsolationReport report;
  for (const model::Layer layer : model::all_layers()) {
    report.layers.push_back({layer, model::LayerState::in_force, "simulated in memory", ""});
  }
  return report;
}

class FakeProcess final : public Process {
 public:
  FakeProcess(std::weak_ptr<Machine> machine, SimulatedPtr process, UniqueFd terminal)
      : machine_(std::move(machine)),
        process_(std::move(process)),
        terminal_(std::move(terminal)) {}

  std::uint64_t id() const override { return static_cast<std::uint64_t>(process_->pid); }
  std::int64_t pid() const override { return process_->pid; }
  UniqueFd take_terminal() override { return std::move(terminal_); }

  Task<ProcessExit> wait() override { return wait_for(process_); }

  void signal(int signal_number, SignalTarget target) override {
    const std::shared_ptr<Machine> machine = machine_.lock();
    if (!machine) return;
    if (target == SignalTarget::group) {
      machine->signal_group(process_->pid, signal_number);
    } else {
      machine->signal(*process_, signal_number);
    }
  }

  bool kill_all() override {
    signal(SIGKILL, SignalTarget::group);
    return true;
  }

  void settle() override {}

  void put_to_use() override {
    if (const auto machine = machine_.lock()) {
      process_->oom_kills_before = machine->usage().oom_kills;
    }
  }

 private:
  static Task<ProcessExit> wait_for(SimulatedPtr process) {
    co_await process->ended.wait();
    if (!process->exit) {
      throw Error(ErrorCode::box_lost, str("the box ended while process ", process->pid,
                                           " was running in it; create a new one"));
    }
    co_return *process->exit;
  }

  std::weak_ptr<Machine> machine_;
  SimulatedPtr process_;
  UniqueFd terminal_;
};

// A terminal of the host, whose other end is the process's standard streams.
UniqueFd open_terminal(const TerminalSize& size, Stdio& stdio) {
  UniqueFd master(check_syscall("terminal", ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)));
  check_syscall("terminal", ::unlockpt(master.get()));
  winsize window{};
  window.ws_row = size.rows;
  window.ws_col = size.columns;
  check_syscall("terminal", ::ioctl(master.get(), TIOCSWINSZ, &window));
  for (UniqueFd* end : {&stdio.in, &stdio.out, &stdio.err}) {
    *end = UniqueFd(check_syscall(
        "terminal", ::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)));
  }
  return master;
}

class FakeBox final : public Box {
 public:
  FakeBox(std::shared_ptr<FakeState> state, std::shared_ptr<Machine> machine, std::string id)
      : state_(std::move(state)),
        machine_(std::move(machine)),
        id_(std::move(id)),
        isolation_(state_->isolation) {}
  ~FakeBox() override { machine_->lose(); }

  const std::string& id() const override { return id_; }
  const model::IsolationReport& isolation() const override { return isolation_; }
  bool alive() const override { return machine_->alive(); }

  Task<std::unique_ptr<Process>> start(ProcessSpec spec, Stdio stdio) override {
    if (machine_->alive()) throw_next(state_->start_failures);
    UniqueFd terminal;
    if (spec.terminal) terminal = open_terminal(*spec.terminal, stdio);
    Streams streams{open_descriptor(state_->executor, std::move(stdio.in)),
                    open_descriptor(state_->executor, std::move(stdio.out)),
                    open_descriptor(state_->executor, std::move(stdio.err)),
                    {}};
    for (UniqueFd& fd : stdio.more) {
      streams.more.push_back(open_descriptor(state_->executor, std::move(fd)));
    }
    co_return std::make_unique<FakeProcess>(
        machine_, machine_->start(std::move(spec), std::move(streams)), std::move(terminal));
  }

  Task<BoxUsage> usage() override {
    if (!machine_->alive()) throw Error(ErrorCode::box_lost, str("box ", id_, " has ended"));
    co_return machine_->usage();
  }

  Task<void> show(model::BoxSettings, model::MountSpec mount) override {
    if (!machine_->alive()) throw Error(ErrorCode::box_lost, str("box ", id_, " has ended"));
    machine_->files().show(mount);
    co_return;
  }
  Task<void> hide(model::MountSpec mount) override {
    if (!machine_->alive()) throw Error(ErrorCode::box_lost, str("box ", id_, " has ended"));
    machine_->files().hide(mount);
    co_return;
  }

  // What lives in this process's memory ends with it.
  std::optional<Handover> handover() const override { return std::nullopt; }
  std::unique_ptr<Process> find_process(std::uint64_t) override { return nullptr; }
  void end_unclaimed() override {}

  Task<void> destroy(std::chrono::milliseconds grace) override { return machine_->destroy(grace); }

 private:
  std::shared_ptr<FakeState> state_;
  std::shared_ptr<Machine> machine_;
  std::string id_;
  model::IsolationReport isolation_;
};

}  // namespace

Fake::Fake(boost::asio::any_io_executor executor)
    : state_(std::make_shared<FakeState>(std::move(executor))) {
  state_->isolation = everything_simulated();
}

Fake::~Fake() = default;

Task<BackendStatus> Fake::status() {
  BackendStatus status;
  status.available = state_->unavailable.empty();
  status.reason = state_->unavailable;
  status.isolation = state_->isolation;
  co_return status;
}

Task<std::unique_ptr<Box>> Fake::create(model::BoxSettings settings) {
  const std::shared_ptr<FakeState> state = state_;
  if (const std::shared_ptr<Event> gate = state->gate) {
    struct Waiting {
      std::size_t& count;
      explicit Waiting(std::size_t& held) : count(held) { ++count; }
      ~Waiting() { --count; }
    } waiting(state->held);
    co_await gate->wait();
  }
  throw_next(state->create_failures);
  if (state->stopped || !state->unavailable.empty()) {
    throw Error(ErrorCode::backend_unavailable,
                str("the fake backend is unavailable: ",
                    state->stopped ? std::string("it has been stopped") : state->unavailable));
  }
  auto machine = std::make_shared<Machine>(state->executor, settings);
  const std::uint64_t number = ++state->created;
  std::string id = str("fake-", number);
  std::erase_if(state->machines, [](const auto& entry) { return entry.second.second.expired(); });
  state->machines[number] = {id, machine};
  co_return std::make_unique<FakeBox>(state, std::move(machine), std::move(id));
}

Task<std::unique_ptr<Box>> Fake::adopt(model::BoxSettings, std::string, std::vector<UniqueFd>) {
  throw Error(ErrorCode::box_lost, "simulated boxes end with their owner");
  co_return nullptr;
}

Task<void> Fake::stop() {
  const std::shared_ptr<FakeState> state = state_;
  state->stopped = true;
  const auto machines = state->machines;
  for (const auto& [number, entry] : machines) {
    if (const std::shared_ptr<Machine> machine = entry.second.lock()) {
      co_await machine->destroy(std::chrono::milliseconds(0));
    }
  }
}

void Fake::fail_next_create(Error error) {
  state_->create_failures.push_back(std::move(error));
}

void Fake::fail_next_start(Error error) {
  state_->start_failures.push_back(std::move(error));
}

void Fake::hold_creates() {
  if (!state_->gate) state_->gate = std::make_shared<Event>(state_->executor);
}

void Fake::release_creates() {
  if (const std::shared_ptr<Event> gate = std::exchange(state_->gate, nullptr)) gate->set();
}

std::size_t Fake::held_creates() const {
  return state_->held;
}

bool Fake::kill_box(std::string_view id) {
  for (const auto& [number, entry] : state_->machines) {
    const std::shared_ptr<Machine> machine = entry.second.lock();
    if (entry.first != id || !machine || !machine->alive()) continue;
    machine->lose();
    return true;
  }
  return false;
}

void Fake::set_unavailable(std::string reason) {
  state_->unavailable = std::move(reason);
}

void Fake::set_isolation(model::IsolationReport report) {
  state_->isolation = std::move(report);
}

std::vector<std::string> Fake::boxes() const {
  std::vector<std::string> ids;
  for (const auto& [number, entry] : state_->machines) {
    const std::shared_ptr<Machine> machine = entry.second.lock();
    if (machine && machine->alive()) ids.push_back(entry.first);
  }
  return ids;
}

}  // namespace caisson::backend::fake
