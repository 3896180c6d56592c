#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/str.h"
#include "boxes.h"
#include "engine.h"
#include "measurements.h"
#include "peers.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

struct OurTimes {
  Samples create;
  Samples first_exec;
  Samples destroy;
  Samples all;
};

Contender ours(Boxes& boxes, OurTimes& times) {
  return {[&](bool counts) {
    std::unique_ptr<backend::Box> box;
    const double create = milliseconds_of([&] { box = boxes.create(); });
    const double exec = milliseconds_of([&] { boxes.run_trivial_command(*box); });
    const double destroy = milliseconds_of([&] { boxes.destroy(*box); });
    if (!counts) return;
    times.create.add(create);
    times.first_exec.add(exec);
    times.destroy.add(destroy);
    times.all.add(create + exec + destroy);
  }};
}

void add_figures(const OurTimes& times, const std::deque<PeerCommand>& peers, Report& report) {
  Figure figure{.measurement = "lifecycle", .name = "create a box"};
  figure.ours = times.create.summary();
  report.figures.push_back(figure);
  figure.name = "first exec in it";
  figure.ours = times.first_exec.summary();
  report.figures.push_back(figure);
  figure.name = "destroy it";
  figure.ours = times.destroy.summary();
  report.figures.push_back(figure);

  figure.name = "create + first exec + destroy";
  figure.ours = times.all.summary();
  const Goal against_bwrap{Goal::Of::ratio, Goal::Bound::at_most, 0.7};
  bool compared = false;
  for (const PeerCommand& peer : peers) {
    figure.peer = Peer{peer.name, peer.samples.summary()};
    figure.goal.reset();
    if (peer.argv[0] == "bwrap") {
      figure.goal = against_bwrap;
      compared = true;
    }
    report.figures.push_back(figure);
  }
  if (compared) return;
  figure.peer.reset();
  figure.goal = against_bwrap;
  report.figures.push_back(figure);
}

// A box now and then: see measure_rested of exec.
void measure_rested(Boxes& boxes, const Options& options, Report& report) {
  OurTimes times;
  std::vector<Contender> contenders{after_rest(ours(boxes, times))};
  std::optional<PeerCommand> bwrap = probe_peer("bwrap", bwrap_command(), report);
  if (bwrap) contenders.push_back(after_rest(bwrap->contender()));
  take_turns("lifecycle after a rest", contenders, options.quick ? 5 : 60);
  Figure figure{.measurement = "lifecycle",
                .name = str("the same after ", kRest.count(), " ms of rest"),
                .ours = times.all.summary()};
  if (bwrap) figure.peer = Peer{bwrap->name, bwrap->samples.summary()};
  report.figures.push_back(figure);
}

}  // namespace

void measure_lifecycle(const Options& options, Report& report) {
  Boxes boxes;
  OurTimes times;
  std::deque<PeerCommand> peers;
  if (auto peer = probe_peer("bwrap", bwrap_command(), report)) peers.push_back(*peer);
  if (auto peer = probe_peer("nsjail", nsjail_command(), report)) peers.push_back(*peer);
  for (const Engine& engine : find_engines(report)) peers.push_back(engine.run_command());
  std::vector<Contender> contenders{ours(boxes, times)};
  for (PeerCommand& peer : peers) contenders.push_back(peer.contender());

  take_turns("lifecycle", contenders, options.quick ? 5 : 300);
  add_figures(times, peers, report);
  measure_rested(boxes, options, report);
}

}  // namespace caisson::benchmarks
