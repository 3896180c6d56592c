#include "session/process.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include "async/sleep.h"
#include "backend/run.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"

namespace caisson::session {

namespace {

constexpr std::chrono::seconds kStopGrace{5};
constexpr std::size_t kPreviewCharacters = 4000;
constexpr std::size_t kLongestCharacter = 4;
// Between the end of a process and its next start: twice the last time, until it has lived longer.
constexpr std::chrono::milliseconds kFirstBackoff{100};
constexpr std::chrono::milliseconds kLongestBackoff{30'000};
constexpr std::chrono::seconds kHealthyLife{30};
constexpr std::chrono::milliseconds kPauseForRoom{100};

// A login shell finds the program.
backend::ProcessSpec program_of(const model::ManagedProcessSpec& spec) {
  backend::ProcessSpec program;
  program.argv = {"/bin/sh", "-lc", "exec \"$0\" \"$@\"", spec.command};
  program.argv.insert(program.argv.end(), spec.args.begin(), spec.args.end());
  program.env = environment_of(spec);
  program.cwd = spec.cwd;
  program.outlives_owner = true;
  program.own_group = true;
  if (spec.memory_mb > 0) program.memory_bytes = static_cast<std::uint64_t>(spec.memory_mb) << 20;
  if (spec.tty) {
    program.terminal = {.rows = static_cast<std::uint16_t>(spec.rows),
                        .columns = static_cast<std::uint16_t>(spec.columns)};
  }
  return program;
}

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// The last characters of a stream, decoded as a whole: none is cut.
std::string last_characters(const journal::Journal& journal, std::size_t count) {
  const std::uint64_t end = journal.end();
  const std::uint64_t most = count * kLongestCharacter;
  const std::uint64_t begin = std::max(journal.begin(), end - std::min(end, most));
  std::string bytes(end - begin, '\0');
  const journal::ReadResult read = journal.read(begin, std::span(bytes.data(), bytes.size()));
  bytes.resize(read.bytes);
  // The first character may have been cut, if this is not the beginning of the stream.
  std::size_t first = 0;
  while (begin > 0 && first < bytes.size() && continues(bytes[first])) ++first;
  std::string text = decode_utf8(std::string_view(bytes).substr(first));
  std::size_t at = text.size();
  for (std::size_t left = count; left > 0 && at > 0; --left) {
    do {
      --at;
    } while (at > 0 && continues(text[at]));
  }
  return text.substr(at);
}

ProcessEnd unseen_end(std::string reason) {
  ProcessEnd end{.at = model::now(), .exit_code = {}, .signal = {}};
  end.reason = std::move(reason);
  return end;
}

// It may have ended while there was no daemon.
ProcessEnd end_of(const backend::ProcessExit& exit) {
  ProcessEnd end{.at = model::now() - exit.ago, .exit_code = {}, .signal = {}};
  if (exit.signal != 0) {
    end.signal = exit.signal;
  } else {
    end.exit_code = exit.exit_code;
  }
  end.oom = exit.oom_kills > 0;
  end.cpu_us = (exit.user_time + exit.system_time).count();
  end.peak_memory_bytes = exit.peak_memory_bytes;
  return end;
}

// As far as the wall clock tells; it may have been set meanwhile.
model::Timestamp::duration age_of(const std::optional<ProcessEnd>& end) {
  if (!end) return {};
  return std::max(model::now() - end->at, model::Timestamp::duration(0));
}

}  // namespace

std::vector<std::string> environment_of(const model::ManagedProcessSpec& spec) {
  std::map<std::string, std::string> own = spec.env;
  if (spec.tty) own.try_emplace("TERM", "xterm-256color");
  return backend::environment_with(own);
}

ManagedProcess::ManagedProcess(const ProcessContext& context, Session::Use session,
                               KeptProcess kept)
    : context_(context),
      session_(std::move(session)),
      kept_(std::move(kept)),
      attachments_(context.streams.executor),
      taken_over_(context.streams.executor),
      stopping_(context.streams.executor),
      ended_(context.streams.executor),
      tasks_(context.streams.executor) {}

std::string ManagedProcess::name() const {
  return str(printable(kept_.session_id), "/", printable(kept_.spec.process_id));
}

Task<std::shared_ptr<ManagedProcess>> ManagedProcess::start(const ProcessContext& context,
                                                            Session::Use session,
                                                            model::ManagedProcessSpec spec) {
  KeptProcess kept{.session_id = session->id(),
                   .spec = std::move(spec),
                   .directory = random_hex(8),
                   .started_at = model::now(),
                   .end = std::nullopt};
  std::shared_ptr<ManagedProcess> process(
      new ManagedProcess(context, std::move(session), std::move(kept)));
  std::exception_ptr failure;
  try {
    process->streams_ = co_await process->context_.streams.disk.run(false, [&process = *process] {
      std::filesystem::create_directory(process.directory());
      return ProcessStreams::create(process.context_.streams, process.directory(),
                                    process.kept_.spec);
    });
    co_await process->launch();
  } catch (const std::filesystem::filesystem_error& error) {
    failure = std::make_exception_ptr(SystemError(error.path1().native(), error.code().value()));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    co_await process->discard();
    std::rethrow_exception(failure);
  }
  process->tasks_.spawn("a process", process->live());
  co_return process;
}

std::shared_ptr<ManagedProcess> ManagedProcess::adopt(const ProcessContext& context,
                                                      Session::Use session, KeptProcess told,
                                                      std::vector<UniqueFd> fds) {
  std::shared_ptr<ManagedProcess> process(
      new ManagedProcess(context, std::move(session), std::move(told)));
  KeptProcess& kept = process->kept_;
  process->streams_ = ProcessStreams::open(context.streams, process->directory(), kept.spec,
                                           std::move(fds), kept.reserved, process->name());
  process->streams_->on_change = [self = process.get()] { self->keep(); };
  if (kept.phase == ProcessPhase::ended) {
    process->ended_on_ = Clock::now() - age_of(kept.end);
    process->session_.reset();
    process->ended_.set();
    return process;
  }
  if (kept.phase == ProcessPhase::running) {
    process->process_ = (*process->session_)->find_process(kept.id);
    process->launched_at_ = Clock::now();
    process->streams_->run();
  }
  process->tasks_.spawn("a process", process->live());
  return process;
}

void ManagedProcess::keep() const {
  if (context_.keeper == nullptr) return;
  KeptProcess told = kept_;
  told.reserved = streams_->reserved();
  context_.keeper->keep(kept_process_name(kept_.directory), to_text(told), streams_->descriptors());
}

// Kept before it starts: a daemon that dies now is followed by one that knows of it.
Task<void> ManagedProcess::launch() {
  streams_->on_change = [this] { keep(); };
  backend::Stdio stdio = streams_->make_pipes();
  kept_.phase = ProcessPhase::starting;
  keep();
  backend::ProcessSpec program = program_of(kept_.spec);
  const std::shared_ptr<Session> session = session_->get();
  process_ = co_await session->start_process(std::move(program), std::move(stdio));
  launched_at_ = Clock::now();
  kept_.phase = ProcessPhase::running;
  kept_.id = process_->id();
  kept_.pid = process_->pid();
  if (kept_.spec.tty) streams_->set_terminal(process_->take_terminal());
  keep();
  streams_->run();
}

Task<ProcessEnd> ManagedProcess::wait_for_end() {
  if (!process_) co_return unseen_end("the daemon ended while it was being started");
  std::string lost;
  try {
    co_return end_of(co_await process_->wait());
  } catch (const Error& error) {
    lost = error.what();
  }
  co_return unseen_end(std::move(lost));
}

// What the first program left running goes with it.
Task<void> ManagedProcess::end_group() {
  if (!process_) co_return;
  constexpr int kAttempts = 200;
  constexpr std::chrono::milliseconds kPause{5};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (process_->kill_all()) co_return;
    co_await sleep_for(kPause);
  }
  log::warning("what a process started was killed and has not ended", "process", name());
}

bool ManagedProcess::restarts_after(const ProcessEnd& end) const {
  if (stopping_.is_set() || !(*session_)->alive()) return false;
  if (kept_.spec.restart == model::Restart::always) return true;
  const bool failed = !end.exit_code || *end.exit_code != 0;
  return kept_.spec.restart == model::Restart::on_failure && failed;
}

// False: it is to stop instead.
Task<bool> ManagedProcess::wait_to_restart() {
  const bool healthy = Clock::now() - launched_at_ >= kHealthyLife;
  backoff_ =
      healthy || backoff_.count() == 0 ? kFirstBackoff : std::min(backoff_ * 2, kLongestBackoff);
  log::warning("a process has ended and is started again", "process", name(), "in_ms",
               backoff_.count(), "restarts", kept_.restarts);
  if (co_await stopping_.wait_until(Clock::now() + backoff_)) co_return false;
  // What is left in the pipe at the end of a program goes into the journal's slack, once: the next
  // one starts when those who are to read it have made room.
  while (streams_->out_journal().full() && (*session_)->alive()) {
    if (co_await stopping_.wait_until(Clock::now() + kPauseForRoom)) co_return false;
  }
  co_return true;
}

Task<void> ManagedProcess::live() {
  const std::shared_ptr<ManagedProcess> self = shared_from_this();
  bool waiting = kept_.phase == ProcessPhase::waiting;
  for (;;) {
    if (!waiting) {
      ProcessEnd end = co_await wait_for_end();
      co_await end_group();
      co_await streams_->finish();
      kept_.end = std::move(end);
      if (!restarts_after(*kept_.end)) break;
      kept_.phase = ProcessPhase::waiting;
      keep();
      if (process_) process_->settle();
      process_.reset();
    }
    waiting = false;
    if (!co_await wait_to_restart()) break;
    ++kept_.restarts;
    std::string failure;
    try {
      co_await launch();
    } catch (const Error& error) {
      failure = error.what();
    }
    if (failure.empty()) continue;
    kept_.end = unseen_end(std::move(failure));
    if (!restarts_after(*kept_.end)) break;
    kept_.phase = ProcessPhase::waiting;
    keep();
    waiting = true;
  }
  kept_.phase = ProcessPhase::ended;
  co_await streams_->close();
  keep();
  if (process_) process_->settle();
  process_.reset();
  session_.reset();
  log::info("process ended", "process", name());
  ended_on_ = Clock::now();
  ended_.set();
}

model::ManagedProcessInfo ManagedProcess::info() const {
  model::ManagedProcessInfo info = model::managed_process_info_of(kept_.spec);
  info.session_id = kept_.session_id;
  info.started_at = kept_.started_at;
  info.attached = !attachments_.free();
  if (kept_.phase == ProcessPhase::waiting) info.status = model::ProcessStatus::restarting;
  if (kept_.phase == ProcessPhase::ended) info.status = model::ProcessStatus::exited;
  if (kept_.phase == ProcessPhase::ended && kept_.end) {
    info.exited_at = kept_.end->at;
    info.exit_code = kept_.end->signal ? std::optional<std::int64_t>(128 + *kept_.end->signal)
                                       : kept_.end->exit_code;
  }
  const journal::Journal& said = streams_->err_journal();
  info.stderr_preview = last_characters(said, kPreviewCharacters);
  return info;
}

void ManagedProcess::signal(int number) {
  if (process_) process_->signal(number, backend::SignalTarget::group);
}

Task<void> ManagedProcess::stop() {
  const std::shared_ptr<ManagedProcess> self = shared_from_this();
  if (!running()) co_return;
  stopping_.set();
  streams_->close_input();
  // Interactive shells ignore SIGTERM, and may forget one of two signals that come together.
  signal(kept_.spec.tty ? SIGHUP : SIGTERM);
  if (!co_await ended_.wait_until(Clock::now() + kStopGrace) && process_) process_->kill_all();
  co_await ended_.wait();
}

Task<void> ManagedProcess::discard() {
  const std::shared_ptr<ManagedProcess> self = shared_from_this();
  co_await abandon();
  if (context_.keeper != nullptr) context_.keeper->drop(kept_process_name(kept_.directory));
  std::error_code error;
  std::filesystem::remove_all(directory(), error);
  if (error) {
    log::warning("the streams of a process could not be removed", "directory", directory().native(),
                 "error", error.message());
  }
}

Task<void> ManagedProcess::abandon() {
  const std::shared_ptr<ManagedProcess> self = shared_from_this();
  co_await tasks_.stop();
  if (streams_) co_await streams_->stop();
}

}  // namespace caisson::session
