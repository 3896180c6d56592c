#include "backend/native/cgroup_limits.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace caisson::backend::native {

namespace {

constexpr std::uint64_t kDefaultPeriodUs = 100'000;
constexpr std::uint64_t kLongestPeriodUs = 1'000'000;
constexpr std::uint64_t kLeastQuotaUs = 1'000;
constexpr std::uint64_t kLeastTcpBytes = 4u << 20;
constexpr double kMostCpus = 1'000'000;  // far above any machine, far below the kernel's overflow

[[noreturn]] void refuse(const char* file, std::string_view value, std::string_view cause) {
  throw Error(ErrorCode::isolation_unavailable,
              str("control group: ", file, " cannot be set to ", value, ": ", cause));
}

std::optional<std::uint64_t> to_number(std::string_view text) {
  text = trim(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

enum class Write { always, when_different };

// Writes and proves one control file; `holds` judges what the kernel says afterwards.
template <typename Holds>
void set(int directory, const char* file, std::string_view value, Write when, Holds holds) {
  const UniqueFd fd(::openat(directory, file, O_RDWR | O_CLOEXEC));
  if (!fd) refuse(file, value, error_text(errno));
  char buffer[128];
  if (when == Write::when_different &&
      holds(trim(read_again(fd.get(), buffer, sizeof buffer, file))))
    return;
  if (::pwrite(fd.get(), value.data(), value.size(), 0) < 0) refuse(file, value, error_text(errno));
  const std::string_view said = trim(read_again(fd.get(), buffer, sizeof buffer, file));
  if (!holds(said)) refuse(file, value, str("it reads ", printable(said), " afterwards"));
}

void set_exactly(int directory, const char* file, std::uint64_t number,
                 Write when = Write::always) {
  const std::string value = std::to_string(number);
  set(directory, file, value, when, [&](std::string_view said) { return said == value; });
}

// The kernel keeps memory limits in whole pages and rounds down.
void set_bytes(int directory, const char* file, std::uint64_t bytes) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  set(directory, file, std::to_string(bytes), Write::always,
      [&](std::string_view said) { return to_number(said) == bytes - bytes % page; });
}

}  // namespace

CpuBandwidth cpu_bandwidth(double cpus) {
  if (!(cpus > 0)) throw Error(ErrorCode::validation_error, "cpus: must be a number above 0");
  // The small addend keeps 0.29 * 100000 from becoming 28999.
  const auto quota = [&](std::uint64_t period) {
    return static_cast<std::uint64_t>(std::min(cpus, kMostCpus) * static_cast<double>(period) +
                                      1e-6);
  };
  if (quota(kDefaultPeriodUs) >= kLeastQuotaUs) return {quota(kDefaultPeriodUs), kDefaultPeriodUs};
  return {std::max(quota(kLongestPeriodUs), kLeastQuotaUs), kLongestPeriodUs};
}

// The kernel lets every socket have a little beyond the limit, so that a connection goes on under
// it, if slowly.
std::uint64_t tcp_bytes(std::uint64_t memory_bytes) {
  return std::max(memory_bytes / 4, kLeastTcpBytes);
}

void limit_memory(int directory, CgroupVersion version, MemoryControls controls,
                  std::uint64_t bytes) {
  if (version == CgroupVersion::v2) {
    set_bytes(directory, "memory.max", bytes);
    if (controls.swap) set_exactly(directory, "memory.swap.max", 0);
    return;
  }
  set_bytes(directory, "memory.limit_in_bytes", bytes);
  // v1 counts memory and swap together, and takes no sum below the memory limit set before.
  if (controls.swap) set_bytes(directory, "memory.memsw.limit_in_bytes", bytes);
  // Sockets are counted from this moment on, and only those made afterwards.
  if (controls.tcp) set_bytes(directory, "memory.kmem.tcp.limit_in_bytes", tcp_bytes(bytes));
}

void limit_pids(int directory, std::uint64_t pids) {
  set_exactly(directory, "pids.max", pids);
}

void limit_cpus(int directory, CgroupVersion version, CpuBandwidth bandwidth) {
  if (version == CgroupVersion::v2) {
    const std::string value = str(bandwidth.quota_us, " ", bandwidth.period_us);
    set(directory, "cpu.max", value, Write::always,
        [&](std::string_view said) { return said == value; });
  } else {
    set_exactly(directory, "cpu.cfs_period_us", bandwidth.period_us, Write::when_different);
    set_exactly(directory, "cpu.cfs_quota_us", bandwidth.quota_us);
  }
}

std::optional<std::string> find_control(int directory, const char* file) {
  const UniqueFd fd(::openat(directory, file, O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return std::nullopt;
    throw SystemError(str("control group: ", file), errno);
  }
  char buffer[4096];
  return std::string(read_again(fd.get(), buffer, sizeof buffer, file));
}

std::optional<std::uint64_t> find_number(int directory, const char* file) {
  const std::optional<std::string> text = find_control(directory, file);
  return text ? to_number(*text) : std::nullopt;
}

std::optional<std::uint64_t> find_value(std::string_view lines, std::string_view key) {
  for (const std::string_view line : split(lines, '\n')) {
    if (line.starts_with(key) && line.substr(key.size()).starts_with(' ')) {
      return to_number(line.substr(key.size()));
    }
  }
  return std::nullopt;
}

std::string_view read_again(int fd, char* buffer, std::size_t size, std::string_view subject) {
  const ssize_t got = ::pread(fd, buffer, size, 0);
  check_syscall(str("control group: ", subject), got);
  return {buffer, static_cast<std::size_t>(got)};
}

}  // namespace caisson::backend::native
