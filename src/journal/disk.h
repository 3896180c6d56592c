#pragma once
#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <utility>

#include "async/blocking.h"
#include "async/task.h"
#include "base/clock.h"

namespace caisson::journal {

// The disk that journals are on. The loop writes a little itself, which is quickest, until the disk
// lets it wait for once: from then on a thread does it, until the disk has been quick for a while.
// A disk that stands still again and again so stops the loop, and with it everybody, only once.
class Disk {
 public:
  static constexpr std::chrono::milliseconds kSlow{50};  // page cache takes microseconds
  static constexpr std::chrono::seconds kDistrust{60};

  using Now = std::function<Deadline()>;
  explicit Disk(Now now = Clock::now) : now_(std::move(now)) {}

  bool slow() const { return now_() < distrusted_until_.load(); }

  // Runs the work here, or on the thread when there is `much` to do or the disk is slow, and comes
  // back with its result. As for run_blocking, who cancels it waits for the work.
  template <typename Work>
  auto run(bool much, Work work) -> Task<decltype(work())> {
    if (much || slow()) {
      co_return co_await run_blocking(thread_, [this, work = std::move(work)]() mutable {
        const Watch watch(*this);
        return work();
      });
    }
    const Watch watch(*this);
    co_return work();
  }

 private:
  class Watch {
   public:
    explicit Watch(Disk& disk) : disk_(disk), began_(disk.now_()) {}
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch() {
      const Deadline ended = disk_.now_();
      if (ended - began_ >= kSlow) disk_.distrusted_until_ = ended + kDistrust;
    }

   private:
    Disk& disk_;
    Deadline began_;
  };

  Now now_;
  std::atomic<Deadline> distrusted_until_{Deadline::min()};
  boost::asio::thread_pool thread_{1};
};

}  // namespace caisson::journal
