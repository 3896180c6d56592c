#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/str.h"
#include "boxes.h"
#include "measurements.h"
#include "spawn_rate.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

using Seconds = std::chrono::duration<double>;

Task<void> exec_until(backend::Box& box, Deadline end, unsigned& done) {
  while (Clock::now() < end) {
    backend::RunRequest request = trivial_request();
    require_success(co_await backend::run(box, std::move(request)));
    ++done;
  }
}

// One loop thread, one command at a time in each box.
double boxes_per_second(Loop& loop, const std::vector<std::unique_ptr<backend::Box>>& boxes,
                        std::size_t count, Seconds slice) {
  const Clock::time_point start = Clock::now();
  const Deadline end = start + std::chrono::duration_cast<Clock::duration>(slice);
  unsigned done = 0;
  std::vector<Task<void>> tasks;
  for (std::size_t i = 0; i < count; ++i) tasks.push_back(exec_until(*boxes[i], end, done));
  loop.await_all(std::move(tasks));
  return done / Seconds(Clock::now() - start).count();
}

}  // namespace

void measure_throughput(const Options& options, Report& report) {
  constexpr std::size_t kCounts[] = {1, 2, 4};
  const Seconds slice(options.quick ? 0.1 : 0.5);
  Boxes backend;
  std::vector<std::unique_ptr<backend::Box>> boxes;
  for (int i = 0; i < 4; ++i) boxes.push_back(backend.create());

  Samples ours[std::size(kCounts)];
  Samples spawned[std::size(kCounts)];
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    contenders.push_back({[&, i](bool counts) {
      const double rate = boxes_per_second(backend.loop(), boxes, kCounts[i], slice);
      if (counts) ours[i].add(rate);
    }});
    contenders.push_back({[&, i](bool counts) {
      const double rate = spawns_per_second(kCounts[i], slice);
      if (counts) spawned[i].add(rate);
    }});
  }
  take_turns("throughput", contenders, options.quick ? 2 : 8);
  for (const auto& box : boxes) backend.destroy(*box);

  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    Figure figure{.measurement = "throughput",
                  .name = str("execs a second, ", kCounts[i], kCounts[i] == 1 ? " box" : " boxes"),
                  .unit = Unit::per_second};
    figure.ours = ours[i].summary();
    figure.peer = Peer{str("posix_spawn, ", kCounts[i], kCounts[i] == 1 ? " thread" : " threads"),
                       spawned[i].summary()};
    if (kCounts[i] == 2) figure.goal = Goal{Goal::Of::ratio, Goal::Bound::at_least, 0.75};
    report.figures.push_back(figure);
  }
  report.note(
      "execs a second: one event loop thread drives all boxes; the peer has a thread for each "
      "worker; turns of half a second");
}

}  // namespace caisson::benchmarks
