#include "turns.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

namespace caisson::benchmarks {

void take_turns(std::string_view title, const std::vector<Contender>& contenders, unsigned rounds) {
  constexpr unsigned kWarmUpRounds = 3;
  Progress progress(title);
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(1);  // NOLINT: the same order in every run is wanted
  for (unsigned round = 0; round < kWarmUpRounds + rounds; ++round) {
    const bool counts = round >= kWarmUpRounds;
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t index : order) {
      const Contender& contender = contenders[index];
      // A slow contender is warmed up once and is part of the first round that counts.
      const bool due = counts ? (round - kWarmUpRounds) % contender.every == 0
                              : round == 0 || contender.every == 1;
      if (due) contender.run(counts);
    }
    progress.show(round, kWarmUpRounds + rounds);
  }
}

Contender after_rest(Contender contender) {
  auto rest_and_run = [run = std::move(contender.run)](bool counts) {
    std::this_thread::sleep_for(kRest);
    run(counts);
  };
  return {.run = std::move(rest_and_run), .every = contender.every};
}

Progress::Progress(std::string_view title) : title_(title), shown_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::show(unsigned done, unsigned total) {
  const unsigned percent = total == 0 ? 100 : done * 100 / total;
  if (!shown_ || percent == percent_) return;
  percent_ = percent;
  std::fprintf(stderr, "\r%s %u %%\033[K", title_.c_str(), percent);
}

}  // namespace caisson::benchmarks
