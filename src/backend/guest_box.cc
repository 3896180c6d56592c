#include "backend/guest_box.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "async/patience.h"
#include "backend/kill_watch.h"
#include "base/error.h"
#include "base/exhaustion.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "base/uptime.h"

namespace caisson::backend {

namespace {

// Nothing can start in such a box any more.
bool groups_are_gone(const wire::StartFailed& failure) {
  return failure.step == wire::StartStep::cgroup && failure.error_number == ENODEV;
}

Error start_error(const ProcessSpec& spec, const wire::StartFailed& failure) {
  const std::string program = printable(spec.argv.empty() ? "" : spec.argv[0]);
  const std::string reason = error_text(failure.error_number);
  switch (failure.step) {
    case wire::StartStep::request:
      return {ErrorCode::validation_error, "the command is empty or its directory is not absolute"};
    case wire::StartStep::cgroup:
      if (groups_are_gone(failure)) {
        return {ErrorCode::box_lost,
                str(program, ": the control groups of its box were removed by somebody else")};
      }
      [[fallthrough]];
    case wire::StartStep::fork:
      return {
          is_exhaustion(failure.error_number) ? ErrorCode::busy : ErrorCode::command_not_started,
          str(program, ": no process could be made for it: ", reason)};
    case wire::StartStep::directory:
      return {ErrorCode::command_not_started,
              str(program, ": working directory ", printable(spec.cwd), ": ", reason)};
    case wire::StartStep::descriptors:
    case wire::StartStep::identity:
      return {ErrorCode::internal_error, str(program, ": not started: ", reason)};
    case wire::StartStep::execute:
      break;
  }
  if (failure.error_number == ENOENT) {
    return {ErrorCode::command_not_started, str(program, ": not found in the box")};
  }
  return {ErrorCode::command_not_started, str(program, ": cannot be executed: ", reason)};
}

// Why we closed the channel, or ended the box, if it was us.
Error lost(const GuestChannel& channel, const BoxResources& resources, std::string_view when) {
  if (!channel.close_reason().empty()) return {ErrorCode::box_lost, channel.close_reason()};
  const std::string reason = resources.end_reason();
  return {ErrorCode::box_lost, str("the box ended ", when, reason.empty() ? "" : ": ", reason)};
}

std::optional<wire::TerminalSize> wire_size(const std::optional<TerminalSize>& size) {
  if (!size) return std::nullopt;
  return wire::TerminalSize{.rows = size->rows, .columns = size->columns};
}

// The box ends, and whoever needs it gets another.
void give_up(GuestChannel& channel) {
  if (!channel.open()) return;
  log::error("the control groups of a box were removed by somebody else; the box ends");
  channel.close();
}

class GuestProcess final : public Process {
 public:
  GuestProcess(std::uint64_t id, ProcessSpec spec, std::shared_ptr<GuestChannel> channel,
               std::shared_ptr<GuestProcessState> state, std::shared_ptr<BoxResources> resources)
      : id_(id),
        spec_(std::move(spec)),
        channel_(std::move(channel)),
        state_(std::move(state)),
        resources_(std::move(resources)) {}
  ~GuestProcess() override {
    if (kill_watch_) kill_watch_->stop();
  }

  const ProcessSpec& spec() const { return spec_; }
  std::uint64_t id() const override { return id_; }
  std::int64_t pid() const override { return state_->pid; }
  UniqueFd take_terminal() override { return std::move(state_->terminal); }

  Task<ProcessExit> wait() override {
    co_await state_->ended.wait();
    if (state_->failure) refuse();
    if (!state_->exit) throw lost(*channel_, *resources_, "while the command ran");
    const wire::Exited& report = *state_->exit;
    ProcessExit exit;
    if (WIFSIGNALED(report.status)) {
      exit.signal = WTERMSIG(report.status);
      exit.core_dumped = WCOREDUMP(report.status);
    } else {
      exit.exit_code = WEXITSTATUS(report.status);
    }
    exit.user_time = std::chrono::microseconds(report.user_us);
    exit.system_time = std::chrono::microseconds(report.system_us);
    exit.peak_memory_bytes = report.peak_memory_bytes;
    const std::uint64_t now = uptime_us();
    exit.ago = std::chrono::microseconds(now - std::min(report.ended_us, now));
    exit.oom_kills = resources_->oom_kills() - state_->oom_kills_before;
    co_return exit;
  }

  void signal(int signal_number, SignalTarget target) override {
    channel_->send_now(wire::Signal{id_, signal_number, target == SignalTarget::group});
    if (signal_number == SIGKILL) expect_end();
  }

  bool kill_all() override {
    expect_end();
    if (const std::optional<bool> complete = resources_->kill_group(id_)) return *complete;
    signal(SIGKILL, SignalTarget::group);
    return true;
  }

  void settle() override {
    if (spec_.outlives_owner) channel_->send_now(wire::Forget{id_});
    resources_->remove_group(id_);
  }

  void put_to_use() override { state_->oom_kills_before = resources_->oom_kills(); }

  // The start failed.
  [[noreturn]] void refuse() {
    if (groups_are_gone(*state_->failure)) give_up(*channel_);
    throw start_error(spec_, *state_->failure);
  }

 private:
  // A signal to the group comes also when the process itself has ended.
  void expect_end() {
    if (kill_watch_ || state_->ended.is_set()) return;
    kill_watch_ = std::make_shared<KillWatch>(channel_->executor(), state_, channel_, resources_);
    kill_watch_->begin();
  }

  std::uint64_t id_;
  ProcessSpec spec_;  // for error messages; its environment is gone
  std::shared_ptr<GuestChannel> channel_;
  std::shared_ptr<GuestProcessState> state_;
  std::shared_ptr<BoxResources> resources_;
  std::shared_ptr<KillWatch> kill_watch_;  // none: it was not killed
};

// False: the guest has not answered in the time in which a program can be executed.
Task<bool> is_started(std::shared_ptr<GuestProcessState> state) {
  constexpr std::chrono::seconds kLongest{30};
  Patience patience(kLongest, Clock::now());
  while (!co_await state->started.wait_until(patience.next_look())) {
    if (patience.over(Clock::now())) co_return false;
  }
  co_return true;
}

}  // namespace

GuestBox::GuestBox(Unlistened, std::string id, std::shared_ptr<GuestChannel> channel,
                   Identity identity, model::IsolationReport isolation,
                   std::shared_ptr<BoxResources> resources)
    : id_(std::move(id)),
      channel_(std::move(channel)),
      identity_(identity),
      isolation_(std::move(isolation)),
      resources_(std::move(resources)) {}

GuestBox::GuestBox(std::string id, std::shared_ptr<GuestChannel> channel, Identity identity,
                   model::IsolationReport isolation, std::shared_ptr<BoxResources> resources)
    : GuestBox(Unlistened{}, std::move(id), std::move(channel), identity, std::move(isolation),
               std::move(resources)) {
  channel_->listen();
}

GuestBox::GuestBox(std::string id, std::shared_ptr<GuestChannel> channel, Identity identity,
                   model::IsolationReport isolation, std::shared_ptr<BoxResources> resources,
                   const wire::Processes& processes)
    : GuestBox(Unlistened{}, std::move(id), std::move(channel), identity, std::move(isolation),
               std::move(resources)) {
  std::set<std::uint64_t> known;
  for (const wire::RunningProcess& running : processes.running) known.insert(running.id);
  for (const wire::Exited& exited : processes.ended) known.insert(exited.id);
  // A group is made before the guest hears of its process.
  next_id_ = std::max(processes.last_id, resources_->retain_groups(known)) + 1;
  const std::uint64_t oom_kills = resources_->oom_kills();
  for (const wire::RunningProcess& running : processes.running) {
    const std::shared_ptr<GuestProcessState> state = channel_->expect(running.id);
    state->pid = running.pid;
    state->oom_kills_before = oom_kills;
    state->started.set();
    if (running.remember) {
      found_[running.id] = state;
    } else {
      channel_->send_now(wire::Signal{running.id, SIGKILL, true});
    }
  }
  for (const wire::Exited& exited : processes.ended) {
    const std::shared_ptr<GuestProcessState> state = channel_->expect(exited.id);
    state->exit = exited;
    state->oom_kills_before = oom_kills;
    state->started.set();
    state->ended.set();
    channel_->forget(exited.id);
    found_[exited.id] = state;
  }
}

GuestBox::~GuestBox() {
  if (resources_) resources_->kill();
  channel_->close();
}

Task<std::unique_ptr<Process>> GuestBox::start(ProcessSpec spec, Stdio stdio) {
  if (!alive() || !resources_) throw Error(ErrorCode::box_lost, "the box has ended");
  const std::uint64_t id = next_id_++;
  const std::shared_ptr<GuestProcessState> state = channel_->expect(id, spec.confirm_start);
  const std::shared_ptr<GuestChannel> channel = channel_;
  const std::shared_ptr<BoxResources> resources = resources_;
  state->oom_kills_before = resources->oom_kills();
  state->wants_terminal = spec.terminal.has_value();
  std::vector<UniqueFd> group;
  try {
    if (spec.own_group) group = resources->make_group(id, spec.memory_bytes);
  } catch (const Error& error) {
    channel->forget(id);
    if (error.code() == ErrorCode::box_lost) give_up(*channel);
    throw;
  }
  wire::OwnerMessage message = wire::Start{.id = id,
                                           .argv = spec.argv,
                                           .env = std::move(spec.env),
                                           .cwd = spec.cwd,
                                           .uid = identity_.uid,
                                           .gid = identity_.gid,
                                           .report_start = spec.confirm_start,
                                           .remember = spec.outlives_owner,
                                           .after = spec.after,
                                           .cgroups = static_cast<std::uint32_t>(group.size()),
                                           .terminal = wire_size(spec.terminal)};
  std::vector<UniqueFd> fds;
  if (!spec.terminal) {
    fds.push_back(std::move(stdio.in));
    fds.push_back(std::move(stdio.out));
    fds.push_back(std::move(stdio.err));
    for (UniqueFd& fd : stdio.more) fds.push_back(std::move(fd));
  }
  for (UniqueFd& fd : group) fds.push_back(std::move(fd));
  try {
    co_await channel->send(std::move(message), std::move(fds));
  } catch (...) {
    channel->forget(id);
    resources->remove_group(id);
    throw;
  }
  auto process = std::make_unique<GuestProcess>(id, std::move(spec), channel, state, resources);
  if (!process->spec().confirm_start) co_return process;
  if (!co_await is_started(state)) {
    process->signal(SIGKILL, SignalTarget::process);
    co_await state->ended.wait();
    resources->remove_group(id);
    throw Error(ErrorCode::timeout,
                str(printable(process->spec().argv.at(0)),
                    ": not started within 30 seconds: another process of the box stops it"));
  }
  if (state->failure) {
    resources->remove_group(id);
    process->refuse();
  }
  if (state->pid == 0) throw lost(*channel, *resources, "while a command started");
  co_return process;
}

Task<void> GuestBox::show(model::BoxSettings settings, model::MountSpec mount) {
  if (!resources_) throw Error(ErrorCode::box_lost, "the box has been destroyed");
  if (!alive()) throw lost(*channel_, *resources_, "before its mounts could be changed");
  co_await resources_->show(std::move(settings), std::move(mount));
}

Task<void> GuestBox::hide(model::MountSpec mount) {
  if (!resources_) throw Error(ErrorCode::box_lost, "the box has been destroyed");
  if (!alive()) throw lost(*channel_, *resources_, "before its mounts could be changed");
  co_await resources_->hide(std::move(mount));
}

Task<BoxUsage> GuestBox::usage() {
  if (!resources_) throw Error(ErrorCode::box_lost, "the box has ended");
  BoxUsage usage = resources_->usage();
  // Not every host counts for a group, or lets us see processes; what commands reported at their
  // end is known in any case.
  usage.cpu_time = std::max(usage.cpu_time, channel_->reported_cpu_time());
  co_return usage;
}

std::optional<Handover> GuestBox::handover() const {
  if (!resources_ || !channel_->open()) return std::nullopt;
  std::optional<Handover> handover = resources_->handover();
  if (handover) handover->fds.insert(handover->fds.begin(), channel_->socket());
  return handover;
}

std::unique_ptr<Process> GuestBox::find_process(std::uint64_t id) {
  const auto found = found_.find(id);
  if (found == found_.end() || !resources_) return nullptr;
  const std::shared_ptr<GuestProcessState> state = std::move(found->second);
  found_.erase(found);
  ProcessSpec spec;
  spec.outlives_owner = true;
  return std::make_unique<GuestProcess>(id, std::move(spec), channel_, state, resources_);
}

void GuestBox::end_unclaimed() {
  for (const auto& [id, state] : std::exchange(found_, {})) {
    if (!resources_ || !resources_->kill_group(id)) {
      channel_->send_now(wire::Signal{id, SIGKILL, true});
    }
    channel_->send_now(wire::Forget{id});
  }
}

Task<void> GuestBox::destroy(std::chrono::milliseconds grace) {
  const std::shared_ptr<BoxResources> resources = std::exchange(resources_, nullptr);
  if (!resources) co_return;
  const std::shared_ptr<GuestChannel> channel = channel_;
  if (grace.count() > 0 && channel->open()) {
    channel->send_now(wire::End{static_cast<std::uint32_t>(grace.count())});
    // The guest keeps the grace period; a little more is for a guest that does not.
    co_await channel->closed().wait_until(Clock::now() + grace + std::chrono::seconds(1));
  }
  resources->kill();
  channel->close();
  co_await resources->release();
}

}  // namespace caisson::backend
