#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend/native/cgroup_host.h"

namespace caisson::backend::native {

// What the processes of a box may use together. Zero: no limit.
struct CgroupLimits {
  std::uint64_t memory_bytes = 0;  // swap included: a box swaps nothing
  double cpus = 0;                 // processors, fractions allowed
  std::uint64_t pids = 0;          // processes and threads
  bool operator==(const CgroupLimits&) const = default;
};

// `quota` microseconds of processor time in every `period`.
struct CpuBandwidth {
  std::uint64_t quota_us = 0;
  std::uint64_t period_us = 0;
  bool operator==(const CpuBandwidth&) const = default;
};

// The kernel takes no quota below 1 ms, so a very small share gets the longest period, one second.
// Throws validation_error when `cpus` is not a positive number.
CpuBandwidth cpu_bandwidth(double cpus);

// What the kernel can count for cgroups besides plain memory.
struct MemoryControls {
  bool swap = false;
  bool tcp = false;  // v1: buffers of sockets have a limit of their own; v2 counts them as memory
  bool operator==(const MemoryControls&) const = default;
};

// What buffers of sockets may take on v1, on top of a memory limit.
std::uint64_t tcp_bytes(std::uint64_t memory_bytes);

// Each sets one limit of the cgroup `directory` and reads it back: a limit that does not throw is
// in force. Throws isolation_unavailable naming the file, the value and what the kernel said.
void limit_memory(int directory, CgroupVersion version, MemoryControls controls,
                  std::uint64_t bytes);
void limit_pids(int directory, std::uint64_t pids);
void limit_cpus(int directory, CgroupVersion version, CpuBandwidth bandwidth);

// The content of a control file; nullopt when there is none.
std::optional<std::string> find_control(int directory, const char* file);

// As find_control, for a file that holds one number. "max" and whatever is no number give nullopt.
std::optional<std::uint64_t> find_number(int directory, const char* file);

// The number after `key` in lines of "key number".
std::optional<std::uint64_t> find_value(std::string_view lines, std::string_view key);

// The whole content of an open control file, from its beginning. `buffer` bounds it.
std::string_view read_again(int fd, char* buffer, std::size_t size, std::string_view subject);

}  // namespace caisson::backend::native
