#pragma once
#include <functional>
#include <utility>

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
    if (handler_) std::exchange(handler_, nullptr)();
  }
  bool cancelled() const { return cancelled_; }

  // While it lives, cancel() runs the handler, once. A wish that was made before runs it at once.
  class Handler {
   public:
    Handler(Cancellation* wish, std::function<void()> handler) : wish_(wish) {
      if (wish_ == nullptr) return;
      if (wish_->cancelled_) {
        handler();
      } else {
        wish_->handler_ = std::move(handler);
      }
    }
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
    ~Handler() {
      if (wish_ != nullptr) wish_->handler_ = nullptr;
    }

   private:
    Cancellation* wish_;  // null: nobody will wish
  };

 private:
  bool cancelled_ = false;
  std::function<void()> handler_;
};

}  // namespace caisson
