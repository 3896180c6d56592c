#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::benchmarks {

// One of several that are measured against each other.
struct Contender {
  std::function<void(bool counts)> run;  // once; a warm-up round does not count
  unsigned every = 1;                    // takes part in every so many rounds: slow ones seldom
};

// Lets the contenders run in turns, in a new order each round: whatever disturbs the machine, and
// whatever a run leaves behind for the next one, hits all alike. The order is the same in every
// call.
void take_turns(std::string_view title, const std::vector<Contender>& contenders, unsigned rounds);

// How long nobody does anything before a run that is to be measured after a rest: longer than the
// kernel keeps warm what it needs for a process to change its control groups.
inline constexpr std::chrono::milliseconds kRest{50};

// The same contender, each time after a rest.
Contender after_rest(Contender contender);

// "title 40 %" on standard error while something long goes on; silent unless that is a terminal.
class Progress {
 public:
  explicit Progress(std::string_view title);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // wipes the line
  void show(unsigned done, unsigned total);

 private:
  std::string title_;
  bool shown_;
  unsigned percent_ = ~0u;
};

}  // namespace caisson::benchmarks
