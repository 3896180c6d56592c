#pragma once
#include <utility>

#include "base/clock.h"

namespace caisson {

// How long something is waited for that has to come soon, in time during which this loop really
// ran. A loop that looks too late was kept from running, and so perhaps was what it waits for: a
// machine that stands still for seconds uses up next to nothing. Pure: it is told the time.
class Patience {
 public:
  Patience(Clock::duration allowed, Deadline now)
      : step_(allowed / kSteps), left_(allowed), looked_(now) {}

  // When to look again.
  Deadline next_look() const { return looked_ + step_; }

  // To be asked at every look: whether it is used up.
  bool over(Deadline now) {
    const Clock::duration passed = now - std::exchange(looked_, now);
    const bool late = passed > step_ + step_ / 4;
    left_ -= late ? step_ / 4 : passed;  // not nothing: also a loop that is always late ends it
    return left_ <= Clock::duration::zero();
  }

 private:
  static constexpr int kSteps = 20;
  Clock::duration step_;
  Clock::duration left_;
  Deadline looked_;
};

}  // namespace caisson
