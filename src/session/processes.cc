#include "session/processes.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "async/sleep.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::session {

Processes::Processes(ProcessContext context, Registry& sessions, ProcessSettings settings)
    : context_(std::move(context)),
      sessions_(sessions),
      settings_(settings),
      tasks_(context_.streams.executor) {
  std::error_code error;
  std::filesystem::create_directories(context_.directory, error);
  if (error) throw SystemError(context_.directory.native(), error.value());
  std::filesystem::permissions(context_.directory, std::filesystem::perms::owner_all, error);
  if (error) throw SystemError(context_.directory.native(), error.value());
  sessions_.on_end([this](std::string id) { return remove_all(std::move(id)); });
  if (context_.keeper == nullptr) return;
  context_.keeper->on_loss([this] {
    keeper_was_lost_ = true;
    for (const auto& [key, process] : processes_) process->keep();
  });
}

void Processes::expect(backend::KeptEntries kept) {
  std::set<std::string> known;
  while (!kept.empty()) {
    auto entry = kept.extract(kept.begin());
    try {
      KeptProcess told = read_kept_process(entry.mapped().data);
      known.insert(told.directory);
      std::vector<Expected>& of_session = expected_[told.session_id];
      of_session.push_back({std::move(told), std::move(entry.mapped().fds)});
    } catch (const Error& error) {
      lose(entry.key(), error.what());
    }
  }
  remove_strangers(known);
  sessions_.on_return([this](const std::string& id, const std::shared_ptr<Session>& session) {
    follow(id, session);
  });
}

void Processes::lose_homeless() {
  std::vector<std::string> homeless;
  for (const auto& [session_id, processes] : expected_) {
    const std::optional<SessionView> view = sessions_.find(session_id);
    if (!view || !view->returning) homeless.push_back(session_id);
  }
  for (const std::string& session_id : homeless) follow(session_id, nullptr);
}

// Their session is back, or is lost with them.
void Processes::follow(const std::string& session_id, const std::shared_ptr<Session>& session) {
  if (auto found = expected_.extract(session_id)) {
    for (Expected& expected : found.mapped()) adopt(session, std::move(expected));
  }
  if (session) session->end_unclaimed_processes();
}

void Processes::adopt(const std::shared_ptr<Session>& session, Expected expected) {
  const std::string directory = expected.told.directory;
  const Key key(expected.told.session_id, expected.told.spec.process_id);
  try {
    if (!session) throw Error(ErrorCode::box_lost, "its session is gone");
    const std::shared_ptr<ManagedProcess> process = ManagedProcess::adopt(
        context_, Session::Use(session), std::move(expected.told), std::move(expected.fds));
    if (keeper_was_lost_) process->keep();
    processes_[key] = process;
    tasks_.spawn("forget a process", retain(process));
    log::info("process taken over", "session", key.first, "process", key.second);
  } catch (const Error& error) {
    lose(kept_process_name(directory), error.what());
    std::error_code failed;
    std::filesystem::remove_all(context_.directory / directory, failed);
  }
}

void Processes::lose(const std::string& name, const std::string& reason) {
  log::warning("process lost", "entry", name, "error", reason);
  if (context_.keeper != nullptr) context_.keeper->drop(name);
}

// Streams of processes that nobody knows of any more.
void Processes::remove_strangers(const std::set<std::string>& known) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(context_.directory, error)) {
    if (known.contains(entry.path().filename().native())) continue;
    std::error_code failed;
    std::filesystem::remove_all(entry.path(), failed);
  }
}

Task<void> Processes::abandon() {
  co_await tasks_.stop();
  for (const auto& [key, process] : std::exchange(processes_, {})) co_await process->abandon();
}

Task<void> Processes::stop() {
  co_await tasks_.stop();
  for (const auto& [key, process] : std::exchange(processes_, {})) co_await process->discard();
}

std::shared_ptr<Turns> Processes::turns_of(const Key& key) {
  std::erase_if(turns_, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Turns> turns = turns_[key].lock();
  if (!turns) {
    turns = std::make_shared<Turns>(context_.streams.executor);
    turns_[key] = turns;
  }
  return turns;
}

Task<std::shared_ptr<ManagedProcess>> Processes::start(std::string session_id,
                                                       model::ManagedProcessSpec spec) {
  const Key key(session_id, spec.process_id);
  Session::Use session = sessions_.use(session_id);
  const std::shared_ptr<Turns> turns = turns_of(key);
  const std::optional<Turns::Turn> turn = co_await turns->take();
  // Before anything is stopped for it.
  CommandQuestion question{.command = spec.command, .env = environment_of(spec), .cwd = spec.cwd};
  question.tool_problem = co_await sessions_.provide(session->box_settings().image, spec.command);
  co_await session->require_command(std::move(question));
  if (const auto found = processes_.find(key); found != processes_.end()) {
    const std::shared_ptr<ManagedProcess> before = found->second;
    co_await before->stop();
    processes_.erase(key);
    co_await before->discard();
  }
  if (running() + starting_ >= settings_.max_running) {
    throw Error(ErrorCode::capacity_reached,
                str("Box managed process capacity reached (", settings_.max_running, ")"));
  }
  ++starting_;
  std::shared_ptr<ManagedProcess> process;
  std::exception_ptr failure;
  try {
    process = co_await ManagedProcess::start(context_, std::move(session), std::move(spec));
  } catch (...) {
    failure = std::current_exception();
  }
  --starting_;
  if (failure) std::rethrow_exception(failure);
  processes_[key] = process;
  tasks_.spawn("forget a process", retain(process));
  log::info("process started", "session", key.first, "process", key.second, "pid", process->pid());
  co_return process;
}

std::shared_ptr<ManagedProcess> Processes::get(const std::string& session_id,
                                               const std::string& process_id) const {
  sessions_.get(session_id);  // or throws
  const auto found = processes_.find(Key(session_id, process_id));
  if (found != processes_.end()) return found->second;
  throw Error(ErrorCode::managed_process_not_found,
              str("session ", printable(session_id),
                  " has no managed process with process_id=", printable(process_id)));
}

std::vector<std::shared_ptr<ManagedProcess>> Processes::list(const std::string& session_id) const {
  sessions_.get(session_id);  // or throws
  std::vector<std::shared_ptr<ManagedProcess>> found;
  for (const auto& [key, process] : processes_) {
    if (key.first == session_id) found.push_back(process);
  }
  return found;
}

Task<void> Processes::remove(std::string session_id, std::string process_id) {
  const Key key(session_id, process_id);
  const std::shared_ptr<Turns> turns = turns_of(key);
  const std::optional<Turns::Turn> turn = co_await turns->take();
  const std::shared_ptr<ManagedProcess> process = get(session_id, process_id);
  co_await process->stop();
  processes_.erase(key);
  co_await process->discard();
}

Task<void> Processes::remove_all(std::string session_id) {
  std::vector<std::shared_ptr<ManagedProcess>> those;
  for (const auto& [key, process] : processes_) {
    if (key.first == session_id) those.push_back(process);
  }
  for (const std::shared_ptr<ManagedProcess>& process : those) {
    const Key key(session_id, process->spec().process_id);
    co_await process->stop();
    const auto found = processes_.find(key);
    if (found == processes_.end() || found->second != process) continue;
    processes_.erase(found);
    co_await process->discard();
  }
}

std::size_t Processes::running() const {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const auto& entry) { return entry.second->running(); }));
}

// Ended ones are kept for a time, and not too many of them.
Task<void> Processes::retain(std::shared_ptr<ManagedProcess> process) {
  const Key key(process->session_id(), process->spec().process_id);
  co_await process->ended().wait();
  limit_ended();
  // Nobody keeps one that is forgotten before.
  const std::weak_ptr<ManagedProcess> ended = std::exchange(process, nullptr);
  co_await sleep_for(settings_.retention);
  process = ended.lock();
  const auto found = processes_.find(key);
  if (!process || found == processes_.end() || found->second != process) co_return;
  processes_.erase(found);
  co_await process->discard();
}

// The oldest ends go first, by a clock that nobody sets.
void Processes::limit_ended() {
  std::vector<std::pair<Deadline, Key>> ended;
  std::uint64_t bytes = 0;
  for (const auto& [key, process] : processes_) {
    if (process->running()) continue;
    ended.emplace_back(process->ended_on(), key);
    bytes += process->kept_bytes();
  }
  std::sort(ended.begin(), ended.end());
  std::size_t count = ended.size();
  for (const auto& [at, key] : ended) {
    const bool fits = bytes <= settings_.max_ended_bytes || count == 1;
    if (count <= settings_.max_ended && fits) return;
    const auto found = processes_.find(key);
    --count;
    bytes -= found->second->kept_bytes();
    tasks_.spawn("forget a process", found->second->discard());
    processes_.erase(found);
  }
}

}  // namespace caisson::session
