#pragma once
#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "async/task.h"
#include "base/clock.h"

namespace caisson {

// Something that happens once. Any number of coroutines may wait for it; all of them, and the event
// itself, live on one event loop thread.
class Event {
  struct State;

 public:
  explicit Event(boost::asio::any_io_executor executor)
      : state_(std::make_shared<State>(std::move(executor))) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // Waiters of an event that can no longer happen end with operation_aborted.
  ~Event() { state_->wake(); }

  // Wakes every waiter, in the next turns of the loop. A second call does nothing.
  void set() {
    if (std::exchange(state_->happened, true)) return;
    const auto handlers = std::exchange(state_->handlers, {});
    for (const std::function<void()>* handler : handlers) (*handler)();
    state_->wake();
  }
  bool is_set() const { return state_->happened; }

  // While it lives, set() runs the handler, at once and before anybody who waits; one that is too
  // late runs it here. For those who have nothing else to wait with.
  class Subscription {
   public:
    Subscription(const Event& event, std::function<void()> handler)
        : state_(event.state_), handler_(std::move(handler)) {
      if (state_->happened) {
        handler_();
      } else {
        state_->handlers.push_back(&handler_);
      }
    }
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;
    ~Subscription() { std::erase(state_->handlers, &handler_); }

   private:
    std::shared_ptr<State> state_;
    std::function<void()> handler_;
  };

  // Returns when the event has happened, at once when it has already. Throws operation_aborted when
  // the waiting coroutine is cancelled or the event destroyed.
  Task<void> wait() const { return wait_for_ever(state_); }

  // As wait(), but no longer than until the deadline: false when the event has not happened by
  // then.
  Task<bool> wait_until(Deadline deadline) const { return wait_in(state_, deadline); }

 private:
  // Each waiter sleeps on a timer of its own; cancelling the timer is what wakes it. Shared with
  // the waiters, which may run after the event is gone.
  struct State {
    explicit State(boost::asio::any_io_executor where) : executor(std::move(where)) {}
    void wake() {
      for (boost::asio::steady_timer* timer : sleepers) timer->cancel();
    }
    boost::asio::any_io_executor executor;
    bool happened = false;
    std::vector<boost::asio::steady_timer*> sleepers;
    std::vector<const std::function<void()>*> handlers;
  };

  struct Sleeper {
    Sleeper(State& owner, Deadline deadline) : state(owner), timer(owner.executor, deadline) {
      state.sleepers.push_back(&timer);
    }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    ~Sleeper() { std::erase(state.sleepers, &timer); }
    State& state;
    boost::asio::steady_timer timer;
  };

  static Task<bool> wait_in(std::shared_ptr<State> state, Deadline deadline) {
    if (state->happened) co_return true;
    Sleeper sleeper(*state, deadline);
    const auto [error] =
        co_await sleeper.timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    if (state->happened) co_return true;
    if (error) throw boost::system::system_error(error);
    co_return false;
  }

  static Task<void> wait_for_ever(std::shared_ptr<State> state) {
    co_await wait_in(std::move(state), Deadline::max());
  }

  std::shared_ptr<State> state_;
};

}  // namespace caisson
