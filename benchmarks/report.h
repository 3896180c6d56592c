#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "samples.h"

namespace caisson::benchmarks {

enum class Unit { milliseconds, per_second, kibibytes };

// What a figure should be. `ratio` is ours divided by the peer's.
struct Goal {
  enum class Of { ratio, ours };
  enum class Bound { at_most, at_least };
  Of of = Of::ratio;
  Bound bound = Bound::at_most;
  double limit = 0;
};

struct Peer {
  std::string name;
  Summary summary;
};

struct Figure {
  std::string measurement;  // as --only names it
  std::string name;
  Unit unit = Unit::milliseconds;
  Summary ours;
  std::optional<Peer> peer;
  std::optional<Goal> goal;

  std::optional<double> ratio() const;  // none without a peer
  std::optional<bool> met() const;      // none without a goal, or without what it speaks of
};

// One part of the way from nothing to a used and removed box.
struct Phase {
  std::string name;
  Summary summary;
};

// What ran, where, and how busy the machine was with other things.
struct Report {
  std::string kernel;
  unsigned cpus = 0;
  std::array<double, 3> load_before{};
  std::array<double, 3> load_after{};
  std::vector<Figure> figures;
  std::vector<Phase> phases;
  std::vector<std::string> notes;  // methods, and peers that could not be measured

  void note(std::string text);  // once, however often it is said
};

// A report about this host, of nothing yet.
Report begin_report();
void end_report(Report& report);

}  // namespace caisson::benchmarks
