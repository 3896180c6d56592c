#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"
#include "boxes.h"
#include "kernel_memory.h"
#include "measurements.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

struct UserMemory {
  Samples guests;    // of each
  double owner = 0;  // of this program, which holds the other ends
};

void describe(const KernelMemory& before, const KernelMemory& after, double count, Report& report) {
  std::string parts;
  for (std::size_t i = 0; i < KernelMemory::kParts.size(); ++i) {
    const auto each = static_cast<long long>((after.parts[i] - before.parts[i]) / count);
    parts += str(i == 0 ? "" : ", ", KernelMemory::kParts[i], " ", each);
  }
  report.note(
      str("idle boxes: kernel memory is the growth of /proc/meminfo after it has settled, a sample "
          "for each step of boxes; over all of them, in KiB for each box: ",
          parts,
          "; user memory is Pss of smaps_rollup of each guest; what the owner holds is the growth "
          "of its own Pss"));
}

void add_figures(const Samples& kernel, const UserMemory& user, const Samples& charged,
                 Report& report) {
  Figure figure{.measurement = "memory", .unit = Unit::kibibytes};
  figure.name = "idle box, kernel";
  figure.ours = kernel.summary();
  report.figures.push_back(figure);
  figure.name = "idle box, charged to its memory cgroup (part of the above)";
  figure.ours = charged.summary();
  report.figures.push_back(figure);
  figure.name = "idle box, user (guest)";
  figure.ours = user.guests.summary();
  report.figures.push_back(figure);
  figure.name = "idle box, user (its share of the owner)";
  figure.ours = {.n = 1, .median = user.owner, .min = user.owner, .p90 = user.owner};
  report.figures.push_back(figure);

  const Summary k = kernel.summary();
  const Summary g = user.guests.summary();
  figure.name = "idle box, in all";
  figure.ours = {.n = k.n,
                 .median = k.median + g.median + user.owner,
                 .min = k.min + g.min + user.owner,
                 .p90 = k.p90 + g.p90 + user.owner};
  figure.goal = Goal{Goal::Of::ours, Goal::Bound::at_most, 512};
  report.figures.push_back(figure);
}

}  // namespace

void measure_memory(const Options& options, Report& report) {
  const unsigned step = options.quick ? 5 : 25;
  const unsigned steps = options.quick ? 4 : 8;
  Boxes backend;
  backend.destroy(*backend.create());  // starts the launcher, which all boxes share
  const std::set<long long> others = descendants();
  const double owner_before = resident_share("self");
  const KernelMemory before = settled_kernel_memory();

  Progress progress("memory");
  std::vector<std::unique_ptr<backend::Box>> boxes;
  Samples kernel;
  KernelMemory last = before;
  for (unsigned i = 0; i < steps; ++i) {
    progress.show(i, steps);
    for (unsigned made = 0; made < step; ++made) boxes.push_back(backend.create());
    const KernelMemory now = settled_kernel_memory();
    kernel.add((now.total() - last.total()) / step);
    last = now;
  }

  UserMemory user;
  const auto count = static_cast<double>(boxes.size());
  user.owner = (resident_share("self") - owner_before) / count;
  std::size_t guests = 0;
  for (const long long pid : descendants()) {
    if (others.contains(pid)) continue;
    user.guests.add(resident_share(std::to_string(pid)));
    ++guests;
  }
  if (guests != boxes.size()) {
    throw Error(ErrorCode::internal_error,
                str("there are ", boxes.size(), " boxes, but ", guests, " new processes"));
  }
  Samples charged;
  for (const auto& box : boxes) {
    const backend::BoxUsage usage = backend.loop().await(box->usage());
    charged.add(static_cast<double>(usage.memory_bytes) / 1024);
  }
  for (const auto& box : boxes) backend.destroy(*box);
  describe(before, last, count, report);
  add_figures(kernel, user, charged, report);
}

}  // namespace caisson::benchmarks
