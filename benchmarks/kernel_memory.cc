#include "kernel_memory.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

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

KernelMemory read_kernel_memory() {
  const std::string text = read_file("/proc/meminfo");
  KernelMemory memory;
  for (std::size_t i = 0; i < 4; ++i) memory.parts[i] = kibibytes(text, KernelMemory::kParts[i]);
  memory.parts[4] = kibibytes(text, "VmallocUsed") - kibibytes(text, "KernelStack");
  return memory;
}

}  // namespace

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

}  // namespace caisson::benchmarks
