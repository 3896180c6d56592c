#include <deque>
#include <memory>
#include <vector>

#include "base/str.h"
#include "boxes.h"
#include "engine.h"
#include "host_command.h"
#include "measurements.h"
#include "peers.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

Contender in_box(Boxes& boxes, backend::Box& box, Samples& samples) {
  return {[&](bool counts) {
    const double took = milliseconds_of([&] { boxes.run_trivial_command(box); });
    if (counts) samples.add(took);
  }};
}

Contender on_host(Spawn spawn, Samples& samples) {
  return {[spawn, &samples](bool counts) {
    const double took = milliseconds_of([&] { run_checked(trivial_command(), spawn); });
    if (counts) samples.add(took);
  }};
}

// One command after the other, with no pause.
void measure_busy(Boxes& boxes, backend::Box& box, const Options& options, Report& report) {
  Samples ours;
  Samples spawned;
  Samples forked;
  std::vector<Contender> contenders{in_box(boxes, box, ours), on_host(Spawn::posix_spawn, spawned),
                                    on_host(Spawn::vfork, forked)};
  std::vector<std::unique_ptr<Engine::Container>> containers;
  std::deque<PeerCommand> commands;
  for (const Engine& engine : find_engines(report)) {
    containers.push_back(engine.start_container());
    commands.push_back(containers.back()->exec_command());
    contenders.push_back(commands.back().contender());
  }
  take_turns("exec", contenders, options.quick ? 20 : 500);

  Figure figure{.measurement = "exec", .name = "exec of `sh -c true`, output captured"};
  figure.ours = ours.summary();
  figure.peer = Peer{"posix_spawn", spawned.summary()};
  figure.goal = Goal{Goal::Of::ratio, Goal::Bound::at_most, 1.3};
  report.figures.push_back(figure);
  figure.goal.reset();
  figure.peer = Peer{"vfork + exec", forked.summary()};
  report.figures.push_back(figure);
  for (const PeerCommand& command : commands) {
    figure.peer = Peer{command.name, command.samples.summary()};
    report.figures.push_back(figure);
  }
}

// A command now and then, as most callers run them: a loop without a pause hides what the kernel
// has to warm up again.
void measure_rested(Boxes& boxes, backend::Box& box, const Options& options, Report& report) {
  Samples ours;
  Samples spawned;
  const std::vector<Contender> contenders{after_rest(in_box(boxes, box, ours)),
                                          after_rest(on_host(Spawn::posix_spawn, spawned))};
  take_turns("exec after a rest", contenders, options.quick ? 5 : 60);
  Figure figure{.measurement = "exec",
                .name = str("the same after ", kRest.count(), " ms of rest")};
  figure.ours = ours.summary();
  figure.peer = Peer{"posix_spawn", spawned.summary()};
  report.figures.push_back(figure);
}

}  // namespace

void measure_exec(const Options& options, Report& report) {
  Boxes boxes;
  const std::unique_ptr<backend::Box> box = boxes.create();
  measure_busy(boxes, *box, options, report);
  measure_rested(boxes, *box, options, report);
  boxes.destroy(*box);
}

}  // namespace caisson::benchmarks
