#pragma once
#include <array>
#include <set>
#include <string>

namespace caisson::benchmarks {

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

// Waits until what was just created or removed is accounted for: two readings that are alike.
KernelMemory settled_kernel_memory();

// Every process below this one: launchers and guests, whichever of them is whose child.
std::set<long long> descendants();

// KiB of memory that a process holds, what it shares counted in part. "self" is this one.
double resident_share(const std::string& pid);

}  // namespace caisson::benchmarks
