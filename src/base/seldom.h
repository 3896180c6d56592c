#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace caisson {

// Lets one of many events of a kind through in a time, and counts the others: for notices in the
// log that somebody hostile can bring about as often as they like.
class Seldom {
 public:
  explicit Seldom(std::chrono::seconds pause) : pause_(pause) {}

  // How many were left out since the last one that was let through. Nothing: leave this one out.
  std::optional<std::uint64_t> let_through(Deadline now = Clock::now()) {
    if (last_ && now - *last_ < pause_) {
      ++left_out_;
      return std::nullopt;
    }
    last_ = now;
    return std::exchange(left_out_, 0);
  }

 private:
  std::chrono::seconds pause_;
  std::optional<Deadline> last_;
  std::uint64_t left_out_ = 0;
};

}  // namespace caisson
