#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "async/event.h"
#include "async/task.h"
#include "base/log.h"

namespace caisson {

// Owns background work. Its owner awaits finish() or stop() before it goes; what is at work then
// refers to nothing that is gone. Lives on one event loop thread.
class TaskGroup {
 public:
  explicit TaskGroup(boost::asio::any_io_executor executor)
      : state_(std::make_shared<State>(std::move(executor))) {}
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // A failure is logged under the name, once: nobody else would hear of it.
  void spawn(std::string name, Task<void> task) {
    const std::uint64_t number = state_->next++;
    const auto signal = std::make_shared<boost::asio::cancellation_signal>();
    state_->running[number] = signal;
    auto done = [state = state_, number, signal,
                 name = std::move(name)](const std::exception_ptr& failure) {
      state->running.erase(number);
      if (failure) report(name, failure);
      if (state->running.empty() && state->idle) std::exchange(state->idle, nullptr)->set();
    };
    boost::asio::co_spawn(state_->executor, std::move(task),
                          boost::asio::bind_cancellation_slot(signal->slot(), std::move(done)));
  }

  std::size_t size() const { return state_->running.size(); }

  // Waits for everything that was spawned, also meanwhile.
  Task<void> finish() { return join(state_); }

  // Cancels it all first. Tasks end at what they wait for.
  Task<void> stop() {
    cancel();
    return join(state_);
  }

  // The same without waiting, for an owner that takes care to be there or not to be needed.
  void cancel() {
    const auto running = state_->running;  // ending one changes the list
    for (const auto& [number, signal] : running) {
      signal->emit(boost::asio::cancellation_type::terminal);
    }
  }

 private:
  struct State {
    explicit State(boost::asio::any_io_executor where) : executor(std::move(where)) {}
    boost::asio::any_io_executor executor;
    std::map<std::uint64_t, std::shared_ptr<boost::asio::cancellation_signal>> running;
    std::uint64_t next = 0;
    std::shared_ptr<Event> idle;
  };

  static Task<void> join(std::shared_ptr<State> state) {
    while (!state->running.empty()) {
      if (!state->idle) state->idle = std::make_shared<Event>(state->executor);
      const std::shared_ptr<Event> idle = state->idle;
      co_await idle->wait();
    }
  }

  static void report(const std::string& name, const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const boost::system::system_error& error) {
      if (error.code() == boost::asio::error::operation_aborted) return;
      log::error("background work failed", "task", name, "error", error.what());
    } catch (const std::exception& error) {
      log::error("background work failed", "task", name, "error", error.what());
    }
  }

  std::shared_ptr<State> state_;
};

}  // namespace caisson
