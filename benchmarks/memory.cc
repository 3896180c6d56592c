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
#include "measurements.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

// The value of "Name:   123 kB".
double kibibytes(std::string_view text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(name) || !line.substr(name.size()).starts_with(":")) continue;
    const std::string_view rest = trim(line.substr(name.size() + 1));
    return static_cast<double>(parse_integer(rest.substr(0, rest.find(' '))).value_or(0));
  }
  return 0;
}

// What the kernel holds for everybody on this host. Kernel stacks are part of VmallocUsed; the rest
// of that is system call filters and large tables, which no other line shows.
struct KernelMemory {
  static constexpr std::array<const char*, 5> kParts = {"Slab", "KernelStack", "PageTables",
                                                        "Percpu", "other vmalloc"};
  std::array<double, 5> parts{};
  double total() const {
    double sum = 0;
    for (const double part : parts) sum += part;
    return sum;
  }
};

KernelMemory read_kernel_memory() {
  const std::string text = read_file("/proc/meminfo");
  KernelMemory memory;
  for (std::size_t i = 0; i < 4; ++i) memory.parts[i] = kibibytes(text, KernelMemory::kParts[i]);
  memory.parts[4] = kibibytes(text, "VmallocUsed") - kibibytes(text, "KernelStack");
  return memory;
}

// Waits until what was just created or removed is accounted for: two readings that are alike.
KernelMemory settled_kernel_memory() {
  constexpr int kMostReadings = 15;
  constexpr double kAlikeKib = 64;
  KernelMemory last = read_kernel_memory();
  for (int i = 0; i < kMostReadings; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const KernelMemory now = read_kernel_memory();
    const double moved = now.total() - last.total();
    last = now;
    if (moved > -kAlikeKib && moved < kAlikeKib) break;
  }
  return last;
}

// Every process below this one: launchers and guests, whichever of them is whose child.
std::set<long long> descendants() {
  std::map<long long, std::vector<long long>> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = parse_integer(entry.path().filename().native());
    if (!pid) continue;
    try {
      const std::string stat = read_file(entry.path() / "stat");
      // "pid (name) state parent ...", and a name may contain anything.
      const auto words = split(std::string_view(stat).substr(stat.rfind(')') + 2), ' ');
      if (words.size() > 1) children[parse_integer(words[1]).value_or(0)].push_back(*pid);
    } catch (const SystemError&) {
      // It ended while the directory was read.
    }
  }
  std::set<long long> found;
  std::vector<long long> todo{::getpid()};
  while (!todo.empty()) {
    const long long parent = todo.back();
    todo.pop_back();
    for (const long long child : children[parent]) {
      if (found.insert(child).second) todo.push_back(child);
    }
  }
  return found;
}

double resident_share(const std::string& pid) {
  return kibibytes(read_file(str("/proc/", pid, "/smaps_rollup")), "Pss");
}

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
