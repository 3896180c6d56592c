#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "async/cancellation.h"
#include "async/event.h"
#include "async/task.h"

namespace caisson {

// A queue for something that one at a time may use: first come, first served. Everything happens on
// one event loop thread.
class Turns {
  struct State;

 public:
  explicit Turns(boost::asio::any_io_executor executor)
      : executor_(std::move(executor)), state_(std::make_shared<State>()) {}

  // Passes on to the next in the queue when it goes.
  class Turn {
   public:
    Turn() = default;
    explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Turn(Turn&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      release();
      state_ = std::exchange(other.state_, nullptr);
      return *this;
    }
    ~Turn() { release(); }
    void release() {
      if (state_) std::exchange(state_, nullptr)->pass_on();
    }

   private:
    std::shared_ptr<State> state_;
  };

  // nullopt when the wait was given up because of `cancellation`.
  Task<std::optional<Turn>> take(std::shared_ptr<Cancellation> cancellation = nullptr) {
    return take_in(executor_, state_, std::move(cancellation));
  }

  bool free() const { return !state_->taken; }
  std::size_t waiting() const { return state_->queue.size(); }

 private:
  struct State {
    void pass_on() {
      if (queue.empty()) {
        taken = false;
        return;
      }
      const std::shared_ptr<Event> next = queue.front();
      queue.pop_front();
      next->set();
    }
    bool taken = false;
    std::deque<std::shared_ptr<Event>> queue;
  };

  // A place in the queue. One that is left without a turn is given up; a turn that came too late is
  // passed on.
  struct Place {
    Place(std::shared_ptr<State> where, const boost::asio::any_io_executor& executor)
        : state(std::move(where)), called(std::make_shared<Event>(executor)) {
      state->queue.push_back(called);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      const bool waiting = std::erase(state->queue, called) > 0;
      if (!waiting && !used) state->pass_on();
    }
    std::shared_ptr<State> state;
    std::shared_ptr<Event> called;
    bool used = false;
  };

  static Task<std::optional<Turn>> take_in(boost::asio::any_io_executor executor,
                                           std::shared_ptr<State> state,
                                           std::shared_ptr<Cancellation> cancellation) {
    if (!std::exchange(state->taken, true)) co_return Turn(std::move(state));
    Place place(state, executor);
    bool given_up = false;
    {
      const Cancellation::Handler handler(cancellation.get(), [&] {
        if (std::erase(state->queue, place.called) == 0) return;  // it has been called
        given_up = true;
        place.called->set();
      });
      co_await place.called->wait();
    }
    place.used = true;
    if (given_up) co_return std::nullopt;
    co_return Turn(std::move(state));
  }

  boost::asio::any_io_executor executor_;
  std::shared_ptr<State> state_;
};

}  // namespace caisson
