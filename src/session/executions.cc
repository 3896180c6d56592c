#include "session/executions.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>

#include "base/log.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::session {

using store::ExecutionRecord;

// One command, from its record to its answer. Shared by those who wait for it.
struct Executions::Run {
  Run(const boost::asio::any_io_executor& executor, bool kept_without_callers,
      std::shared_ptr<Cancellation> wish)
      : recorded(executor),
        ended(executor),
        kept(kept_without_callers),
        cancellation(std::move(wish)) {}

  void end(Answer with) {
    answer = std::move(with);
    recorded.set();
    ended.set();
  }
  void fail(std::exception_ptr with) {
    failure = std::move(with);
    recorded.set();
    ended.set();
  }

  Event recorded;
  Event ended;
  const bool kept;
  const std::shared_ptr<Cancellation> cancellation;
  std::size_t callers = 0;
  Answer answer;
  std::exception_ptr failure;  // the command was not begun
};

namespace {

[[noreturn]] void throw_conflict(const store::ExecutionId& id) {
  throw Error(ErrorCode::request_id_conflict,
              str("request id ", printable(id.key), " of session ", printable(id.session_id),
                  " was used for another command, or for the same one with other settings: choose "
                  "a new id for each command"));
}

[[noreturn]] void throw_interrupted(const store::ExecutionId& id) {
  throw Error(ErrorCode::interrupted,
              str("request id ", printable(id.key), " of session ", printable(id.session_id),
                  ": the command was started by a daemon that has ended; its outcome is unknown, "
                  "and it was not run again. Choose a new id to run it again"));
}

// What is to be remembered of a command that was begun and has no result.
Error error_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    log::error("exec failed", "cause", error.what());
  }
  return {ErrorCode::internal_error, "the command failed inside the daemon; its log has the cause"};
}

// The shell itself could not be executed.
bool means_not_begun(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == ErrorCode::command_not_started;
  } catch (...) {
    return false;
  }
}

}  // namespace

Executions::Share::Share(std::shared_ptr<Run> run, bool repeated)
    : run_(std::move(run)), repeated_(repeated) {
  ++run_->callers;
}

void Executions::Share::leave() {
  if (!run_ || !std::exchange(here_, false)) return;
  if (--run_->callers == 0 && !run_->kept && run_->cancellation) run_->cancellation->cancel();
}

Executions::Executions(boost::asio::any_io_executor executor, Registry& sessions,
                       store::AsyncStore& store, ExecutionSettings settings, ExecutionClocks clocks)
    : executor_(std::move(executor)),
      sessions_(sessions),
      store_(store),
      settings_(settings),
      clocks_(std::move(clocks)),
      housekeeping_timer_(executor_),
      tasks_(executor_) {
  sessions_.on_removal([this](std::string id) { return forget_session(std::move(id)); });
}

Task<void> Executions::stop() {
  stopping_ = true;
  housekeeping_timer_.cancel();
  co_await tasks_.finish();
}

Task<Answer> Executions::wait_for(std::shared_ptr<Run> run) {
  co_await run->ended.wait();
  if (run->failure) std::rethrow_exception(run->failure);
  co_return run->answer;
}

Task<Executions::Share> Executions::begin(ExecRequest request) {
  Id id{request.asked.session_id, request.options.request_id};
  std::string hash = request_hash(request);
  expire();
  if (entries_.contains(id)) co_return co_await repeat(std::move(id), std::move(hash));
  if (stopping_ || sessions_.stopping()) {
    throw Error(ErrorCode::runtime_unavailable, "Box runtime is shutting down");
  }
  make_room(1, 0);
  if (entries_.size() >= settings_.max_count) {
    throw Error(ErrorCode::capacity_reached,
                str("there are ", settings_.max_count,
                    " commands with a request id at work (caisson.max_request_ids): try again when "
                    "one of them has ended"));
  }
  const auto run =
      std::make_shared<Run>(executor_, request.options.kept_without_caller(), request.cancellation);
  entries_[id] = {.request_hash = std::move(hash), .created_at = clocks_.wall(), .run = run};
  Share share(run, false);
  tasks_.spawn("exec with a request id", work(std::move(id), run, std::move(request)));
  co_await run->recorded.wait();
  if (run->failure) std::rethrow_exception(run->failure);
  co_return share;
}

Task<Executions::Share> Executions::repeat(Id id, std::string request_hash) {
  const Entry& entry = entries_.at(id);
  if (entry.request_hash != request_hash) throw_conflict(id);
  if (entry.state == State::interrupted) throw_interrupted(id);
  if (const std::shared_ptr<Run> run = entry.run) {
    Share share(run, true);
    co_await run->recorded.wait();
    if (run->failure) std::rethrow_exception(run->failure);
    co_return share;
  }
  Answer answer = co_await stored_answer(std::move(id));
  co_return Share(ended_run(std::move(answer)), true);
}

std::shared_ptr<Executions::Run> Executions::ended_run(Answer answer) const {
  auto run = std::make_shared<Run>(executor_, true, nullptr);
  run->end(std::move(answer));
  return run;
}

Task<Answer> Executions::stored_answer(Id id) {
  std::optional<ExecutionRecord> record = co_await store_.find_execution(id);
  if (!record) {
    throw Error(ErrorCode::internal_error, str("the record of request id ", printable(id.key),
                                               " is not in the store any more"));
  }
  co_return read_answer(*std::move(record));
}

Task<Executions::View> Executions::get(std::string session_id, std::string request_id) {
  expire();
  const auto found = entries_.find(Id{session_id, request_id});
  if (found == entries_.end()) {
    sessions_.get(session_id);  // a session that is not there is the better answer
    throw Error(ErrorCode::not_found,
                str("session ", printable(session_id), " knows no request id ",
                    printable(request_id), ": it was never used, or its time is over"));
  }
  View view{.state = found->second.state};
  if (view.state == State::running || view.state == State::interrupted) co_return view;
  const std::shared_ptr<Run> run = found->second.run;
  if (run) {
    view.answer = run->answer;
  } else {
    Id id = found->first;
    view.answer = co_await stored_answer(std::move(id));
  }
  co_return view;
}

// Belongs to nobody's request: the command goes on without those who asked for it.
Task<void> Executions::work(Id id, std::shared_ptr<Run> run, ExecRequest request) {
  if (!co_await record(id, run)) co_return;
  const auto begun = std::make_shared<bool>(false);
  request.begun = begun;
  std::exception_ptr failure;
  Answer answer;
  try {
    const model::ExecResult result = co_await sessions_.exec(std::move(request));
    answer.text = boost::json::serialize(model::to_json(result));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure && (!*begun || means_not_begun(failure))) {
    co_return co_await forget_unbegun(std::move(id), std::move(run), failure);
  }
  if (failure && sessions_.stopping()) co_return run->fail(failure);  // stays recorded as begun
  if (failure) answer.error = error_of(failure);
  co_await finish(std::move(id), std::move(run), std::move(answer));
}

// False: the command must not begin. Those who wait have been told.
Task<bool> Executions::record(Id id, std::shared_ptr<Run> run) {
  std::exception_ptr failure;
  std::vector<Id> dropped;
  try {
    const Entry* entry = find_own(id, run);
    if (entry != nullptr) {
      std::vector<ExecutionRecord> records{
          {.id = id, .request_hash = entry->request_hash, .created_at = entry->created_at}};
      dropped = std::exchange(dropped_, {});
      std::vector<Id> gone = dropped;
      co_await store_.put_executions(std::move(records), std::move(gone));
    }
    if (find_own(id, run) == nullptr) {
      throw Error(ErrorCode::session_not_found,
                  str("session ", printable(id.session_id), " is being deleted"));
    }
  } catch (...) {
    failure = std::current_exception();
    drop_later(dropped);
  }
  if (failure) {
    if (find_own(id, run) != nullptr) erase(id);
    run->fail(failure);
    co_return false;
  }
  run->recorded.set();
  co_return true;
}

Task<void> Executions::finish(Id id, std::shared_ptr<Run> run, Answer answer) {
  Answer kept = answer;
  std::string text = stored_text(kept);
  if (text.size() > settings_.max_bytes) {
    kept.error = Error(ErrorCode::payload_too_large,
                       str("request id ", printable(id.key), ": the command has ended, and its ",
                           "answer of ", text.size(), " bytes was too large to be kept ",
                           "(caisson.max_request_id_bytes); it was not run again"));
    text = stored_text(kept);
  }
  const State state = kept.error ? State::failed : State::completed;
  const std::size_t size = text.size();
  bool saved = false;
  if (const Entry* entry = find_own(id, run)) {
    make_room(0, size);
    std::vector<ExecutionRecord> records{{.id = id,
                                          .request_hash = entry->request_hash,
                                          .state = state,
                                          .created_at = entry->created_at,
                                          .ended_at = clocks_.wall(),
                                          .answer = std::move(text)}};
    const std::vector<Id> dropped = std::exchange(dropped_, {});
    std::vector<Id> gone = dropped;
    try {
      co_await store_.put_executions(std::move(records), std::move(gone));
      saved = true;
    } catch (const Error& error) {
      drop_later(dropped);
      log::warning("an answer is kept in memory only", "session", id.session_id, "request_id",
                   id.key, "error", error.what());
    }
  }
  if (Entry* entry = find_own(id, run)) {
    entry->run = saved ? nullptr : ended_run(std::move(kept));
    end_entry(id, state, size, clocks_.steady() + settings_.ttl);
    housekeeping_timer_.cancel();
  }
  run->end(std::move(answer));
}

// The record goes first: whoever hears of the failure may use the id again, at once.
Task<void> Executions::forget_unbegun(Id id, std::shared_ptr<Run> run, std::exception_ptr failure) {
  if (find_own(id, run) != nullptr) {
    try {
      std::vector<Id> ids{id};
      co_await store_.remove_executions(std::move(ids));
    } catch (const Error& error) {
      log::warning("the record of a request id stays", "session", id.session_id, "request_id",
                   id.key, "error", error.what());
    }
    if (find_own(id, run) != nullptr) erase(id);
  }
  run->fail(failure);
}

}  // namespace caisson::session
