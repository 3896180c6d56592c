#include "session/session.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "model/image_name.h"
#include "session/compare.h"
#include "session/output.h"

namespace caisson::session {

namespace {

std::int64_t milliseconds(std::chrono::microseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace

Session::Session(const boost::asio::any_io_executor& executor, const Settings& settings,
                 std::string backend_name, std::string id, model::BoxSettings box, ReadyBox ready)
    : executor_(executor),
      settings_(settings),
      backend_name_(std::move(backend_name)),
      id_(std::move(id)),
      box_settings_(std::move(box)),
      box_(std::move(ready.box)),
      parked_(std::move(ready.shell)),
      parked_at_(Clock::now()),
      turns_(executor),
      last_used_(Clock::now()),
      created_at_(model::now()),
      last_used_at_(created_at_),
      tasks_(executor) {
  if (!settings_.park_shells) parked_ = {};
}

Session::Session(const boost::asio::any_io_executor& executor, const Settings& settings,
                 std::string backend_name, KeptSession kept, std::unique_ptr<backend::Box> box)
    : Session(executor, settings, std::move(backend_name), std::move(kept.session_id),
              std::move(kept.settings), ReadyBox{.box = std::move(box), .shell = {}}) {
  created_at_ = kept.created_at;
  last_used_at_ = kept.last_used_at;
  last_used_ = std::min(kept.last_used, Clock::now());
  execs_ = kept.execs;
}

KeptSession Session::kept(const backend::Handover& handover) const {
  return {.session_id = id_,
          .settings = box_settings_,
          .box = handover.description,
          .created_at = created_at_,
          .last_used_at = last_used_at_,
          .last_used = last_used_,
          .execs = execs_};
}

model::SessionInfo Session::info() const {
  model::SessionInfo info;
  info.session_id = id_;
  info.box = box_settings_;
  info.backend_name = backend_name_;
  info.backend_session_id = box_->id();
  info.created_at = created_at_;
  info.last_used_at = last_used_at_;
  return info;
}

void Session::touch() {
  last_used_ = Clock::now();
  last_used_at_ = model::now();
}

void Session::throw_closed() const {
  throw Error(ErrorCode::session_not_found, str("session ", printable(id()), " is being deleted"));
}

Task<void> Session::follow(std::vector<model::MountSpec> wanted, bool at_once) {
  const std::shared_ptr<Session> self = shared_from_this();
  std::vector<model::MountSpec>& shown = box_settings_.extra_mounts;
  const MountChanges changes = mount_changes(shown, wanted);
  std::vector<model::MountSpec> surplus = changes.surplus;
  for (const model::MountSpec& mount : changes.missing) {
    const auto in_the_way =
        std::ranges::find(surplus, mount.mount_path, &model::MountSpec::mount_path);
    if (in_the_way != surplus.end()) {
      co_await box_->hide(*in_the_way);
      std::erase(shown, *in_the_way);
      surplus.erase(in_the_way);
    }
    co_await box_->show(box_settings_, mount);
    shown.push_back(mount);
  }
  for (const model::MountSpec& mount : surplus) {
    if (!at_once && users_ > 1) break;
    co_await box_->hide(mount);
    std::erase(shown, mount);
  }
}

Task<model::ExecResult> Session::exec(ExecRequest request) {
  const Use use(shared_from_this());
  const std::shared_ptr<Cancellation> cancellation = request.cancellation;
  std::optional<Turns::Turn> turn = co_await turns_.take(cancellation);
  if (!turn || (cancellation && cancellation->cancelled())) {
    throw Error(ErrorCode::cancelled, "the caller went away before the command began");
  }
  if (closed_) throw_closed();
  std::optional<backend::RunResult> run_result;
  std::string lost;
  try {
    run_result = co_await run(request);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::box_lost) throw;
    lost = error.what();
  }
  if (closed_) throw_closed();
  if (!run_result) {
    throw Error(ErrorCode::box_lost, lost_sentence(lost));
  }
  if (cancellation && cancellation->cancelled()) {
    throw Error(ErrorCode::cancelled, "the command was ended because its caller went away");
  }
  ++execs_;
  model::ExecResult result = result_of(request, *run_result);
  turn.reset();
  if (turns_.free()) park_soon(0);
  co_return result;
}

// The next shell is asked for while a command runs, but starts when the command has ended: no
// command finds a process in its box that it would not find without pools.
void Session::park_soon(std::uint64_t after) {
  if (!settings_.park_shells || descriptors_scarce_ || parking_ || parked_) return;
  parking_ = true;
  tasks_.spawn("park a shell", park(after));
}

// A shell that was gone before it read its command leaves nothing done: another one gets it.
Task<backend::RunResult> Session::run(ExecRequest& request) {
  const bool with_input = !request.options.input.empty();
  ShellSettings wanted{.workdir = request.asked.command.workdir,
                       .env = request.asked.command.env,
                       .input = with_input ? backend::Input::pipe : backend::Input::none};
  next_settings_ = wanted;
  const backend::RunOptions options{
      .input = request.options.input,
      .timeout = std::chrono::seconds(request.asked.command.timeout_sec),
      .output_limit = settings_.max_output_bytes,
      .viewer = request.viewer,
      .cancellation = request.cancellation};
  WaitingShell parked = std::exchange(parked_, {});
  if (parked && parked.settings() == wanted) {
    if (std::optional<backend::StartedCommand> woken = parked.give(request.asked.command.cmd)) {
      if (request.begun) *request.begun = true;
      notice_scarcity(*woken);
      park_soon(woken->process->id());
      backend::RunOptions once = options;
      backend::RunResult result = co_await backend::run_to_end(std::move(*woken), std::move(once));
      if (parked.began() || result.timed_out) co_return result;
    }
  }
  parked = {};
  backend::StartedCommand command =
      co_await start_shell(*box_, std::move(wanted), request.asked.command.cmd);
  if (request.begun) *request.begun = true;
  notice_scarcity(command);
  park_soon(command.process->id());
  backend::RunOptions once = options;
  co_return co_await backend::run_to_end(std::move(command), std::move(once));
}

// The number of a descriptor tells how many there are: the lowest free one is taken.
void Session::notice_scarcity(const backend::StartedCommand& command) {
  const int number = command.out.get();
  descriptors_scarce_ =
      number >= 0 && static_cast<std::size_t>(number) >= settings_.scarce_descriptor;
}

Task<void> Session::park(std::uint64_t after) {
  const std::shared_ptr<Session> self = shared_from_this();
  WaitingShell shell;
  try {
    ShellSettings settings = next_settings_;
    settings.input = backend::Input::none;
    shell = co_await WaitingShell::start(*box_, std::move(settings), after);
  } catch (const Error&) {
    // The box has ended or is full: the next exec says so if it is still true then.
  }
  parking_ = false;
  if (closed_ || !shell) co_return;
  parked_ = std::move(shell);
  parked_at_ = Clock::now();
}

void Session::rest() {
  if (parked_ && Clock::now() - parked_at_ >= settings_.parked_shell_idle) parked_ = {};
}

std::string Session::lost_sentence(std::string_view reason) const {
  return str("session ", printable(id()), ": ", reason,
             "; the next exec makes a new box, and only mounted directories keep their files");
}

model::ExecResult Session::result_of(const ExecRequest& request,
                                     const backend::RunResult& run) const {
  model::ExecResult result;
  result.session_id = id();
  result.backend_name = backend_name_;
  result.duration_ms = milliseconds(run.duration);
  const std::size_t limit = settings_.max_output_bytes;
  result.out = shown_output(run.out.data, run.out.discarded, limit);
  result.err = shown_output(run.err.data, run.err.discarded, limit);
  result.stdout_discarded = static_cast<std::int64_t>(run.out.discarded);
  result.stderr_discarded = static_cast<std::int64_t>(run.err.discarded);
  if (run.timed_out) {
    result.status = model::ExecStatus::timed_out;
    if (result.err.empty()) {
      result.err = str("Command timed out after ", request.asked.command.timeout_sec, " seconds.");
    }
    if (!run.box_lost.empty()) {
      result.box_lost = lost_sentence(run.box_lost);
      result.err += str("\n", *result.box_lost, ".");  // not every client knows the field
    }
  } else {
    result.exit_code = run.exit.signal != 0 ? 128 + run.exit.signal : run.exit.exit_code;
    if (run.exit.signal != 0) result.signal = run.exit.signal;
  }
  result.oom = run.exit.oom_kills > 0;
  if (result.oom) result.oom_limit_mb = box_settings_.memory_mb;
  result.cpu_ms = milliseconds(run.exit.user_time + run.exit.system_time);
  result.peak_memory_bytes = static_cast<std::int64_t>(run.exit.peak_memory_bytes);
  return result;
}

Task<backend::StartedCommand> Session::start_beside(backend::ProcessSpec process,
                                                    std::vector<UniqueFd> more) {
  check_open();
  return backend::start_command(*box_, std::move(process), backend::Input::pipe, std::move(more));
}

Task<void> Session::require_command(CommandQuestion question) {
  const std::shared_ptr<Session> self = shared_from_this();
  check_open();
  question.default_image = model::is_default_image(box_settings_.image);
  const std::optional<std::string> refusal = co_await why_not_startable(*box_, std::move(question));
  if (closed_) throw_closed();
  if (refusal) throw Error(ErrorCode::command_not_started, *refusal);
}

Task<std::unique_ptr<backend::Process>> Session::start_process(backend::ProcessSpec process,
                                                               backend::Stdio stdio) {
  check_open();
  return box_->start(std::move(process), std::move(stdio));
}

Task<void> Session::close() {
  const std::shared_ptr<Session> self = shared_from_this();
  closed_ = true;
  parked_ = {};
  co_await box_->destroy(std::chrono::milliseconds(0));
  co_await tasks_.finish();
}

}  // namespace caisson::session
