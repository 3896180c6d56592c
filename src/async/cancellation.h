#pragma once
#include <functional>
#include <utility>
#include <vector>

namespace caisson {

// A wish that an operation end early, made by whoever waits for its result. The operation says what
// has to be done for it, step by step; a step that cannot be hurried says nothing and is waited
// for. Everything happens on one event loop thread.
class Cancellation {
 public:
  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void cancel() {
    if (std::exchange(cancelled_, true)) return;
    // One by one: a handler may end others, and itself.
    while (!handlers_.empty()) {
      const std::function<void()> run = std::move(*handlers_.front());
      handlers_.erase(handlers_.begin());
      run();
    }
  }
  bool cancelled() const { return cancelled_; }

  // While it lives, cancel() runs the handler, once; there may be several, and the first to come
  // runs first. A wish that was made before runs it at once.
  class Handler {
   public:
    Handler(Cancellation* wish, std::function<void()> handler)
        : wish_(wish), handler_(std::move(handler)) {
      if (wish_ == nullptr) return;
      if (wish_->cancelled_) {
        handler_();
      } else {
        wish_->handlers_.push_back(&handler_);
      }
    }
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
    ~Handler() {
      if (wish_ != nullptr) std::erase(wish_->handlers_, &handler_);
    }

   private:
    Cancellation* wish_;  // null: nobody will wish
    std::function<void()> handler_;
  };

 private:
  bool cancelled_ = false;
  std::vector<std::function<void()>*> handlers_;
};

}  // namespace caisson
