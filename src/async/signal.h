#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <utility>

#include "async/event.h"
#include "async/task.h"

namespace caisson {

// Something that happens again and again. Costs nothing while nobody waits. Lives on one event loop
// thread.
class Signal {
 public:
  explicit Signal(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

  // Wakes all who wait now.
  void notify() {
    if (const std::unique_ptr<Event> waited_for = std::move(event_)) waited_for->set();
  }

  // For the next notify() after this call. Throws operation_aborted when the waiting coroutine is
  // cancelled or the signal destroyed.
  Task<void> wait() {
    if (!event_) event_ = std::make_unique<Event>(executor_);
    return event_->wait();
  }

 private:
  boost::asio::any_io_executor executor_;
  std::unique_ptr<Event> event_;
};

}  // namespace caisson
