// Row I15: limits hold. Outside a box every probe stops at a bound of its own and cleans up.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr int kMaxChildren = 400;
constexpr int kMaxDescriptors = 16'384;
constexpr std::size_t kMiB = 1u << 20;
constexpr std::size_t kMaxLockedMiB = 32;
constexpr std::size_t kMaxConnections = 256;
constexpr int kSpinners = 4;
constexpr std::chrono::milliseconds kSpinTime{1000};

// A child that does nothing, and cannot outlive this process.
pid_t fork_sleeper() {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  end_with_parent(parent);
  for (;;) ::pause();
}

Outcome res_fork(Argument) {
  std::vector<pid_t> children;
  int error_number = 0;
  while (children.size() < kMaxChildren) {
    const pid_t child = fork_sleeper();
    if (child < 0) error_number = errno;
    if (child < 0) break;
    children.push_back(child);
  }
  for (const pid_t child : children) ::kill(child, SIGKILL);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  const std::string amount = std::to_string(children.size()) + " children";
  if (error_number == 0) return allowed(amount);
  return error_number == EAGAIN ? denied("EAGAIN after " + amount)
                                : broken(errno_name(error_number));
}

std::size_t available_mib() {
  for (const std::string& line : lines_of("/proc/meminfo")) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() > 1 && words[0] == "MemAvailable:") return std::stoul(words[1]) / 1024;
  }
  return 0;
}

// What a child came to that takes MiB of memory, counting them, and exits with 0 when it has all
// that it wanted, or with the error that refused it. The kernel may end it instead.
using Take = std::function<void(std::atomic<std::size_t>& taken)>;
Outcome let_a_child_take(const Take& take) {
  void* shared = ::mmap(nullptr, sizeof(std::atomic<std::size_t>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return broken("mmap " + errno_name(errno));
  auto& taken = *new (shared) std::atomic<std::size_t>(0);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return broken("fork " + errno_name(errno));
  if (child == 0) {
    end_with_parent(parent);
    take(taken);
    ::_exit(0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) < 0) return broken("waitpid " + errno_name(errno));
  const std::string amount = std::to_string(taken.load()) + " MiB";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return denied("SIGKILL at " + amount);
  if (!WIFEXITED(status)) return broken("the child ended at " + amount);
  const int error_number = WEXITSTATUS(status);
  if (error_number == 0) return allowed(amount);
  if (error_number == ENOMEM || error_number == EAGAIN) {
    return denied(errno_name(error_number) + " at " + amount);
  }
  return broken(errno_name(error_number) + " at " + amount);
}

void take_block() {
  void* block = ::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) ::_exit(errno);
  std::memset(block, 1, kMiB);
}

// The argument is how many MiB to ask for: more than the box may have.
Outcome res_memory(Argument argument) {
  const auto wanted = static_cast<std::size_t>(number_or(argument, 1024));
  if (available_mib() < 2 * wanted) return broken("the host has too little memory for this check");
  return let_a_child_take([&](std::atomic<std::size_t>& taken) {
    for (; taken < wanted; ++taken) take_block();
  });
}

// Two ends of a connection through the loopback device that nobody reads from.
bool connect_pair(int listener, const sockaddr_in& address, std::vector<UniqueFd>& ends) {
  UniqueFd near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!near) return false;
  if (::connect(near.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
    return false;
  UniqueFd far(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!far) return false;
  ends.push_back(std::move(near));
  ends.push_back(std::move(far));
  return true;
}

void fill_connections(std::size_t wanted, std::atomic<std::size_t>& taken) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), generic, length) < 0 || ::listen(listener.get(), 16) < 0 ||
      ::getsockname(listener.get(), generic, &length) < 0) {
    ::_exit(errno);
  }
  const std::string block(1 << 16, 'x');
  std::vector<UniqueFd> ends;
  std::size_t queued = 0;
  while (ends.size() < 2 * kMaxConnections && queued < wanted) {
    if (!connect_pair(listener.get(), address, ends)) break;
    const int near = ends[ends.size() - 2].get();
    for (ssize_t sent = 0; queued < wanted && sent >= 0;) {
      sent = ::send(near, block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) queued += static_cast<std::size_t>(sent);
      taken = queued / kMiB;
    }
  }
  if (ends.empty()) ::_exit(errno);
  if (queued < wanted) ::_exit(EAGAIN);
}

// The argument is how many MiB to leave in the buffers of connections. Control groups of version 2
// count them as the box's memory and end a process when there is too much of it: the one that has
// most memory of its own.
Outcome res_tcp_buffers(Argument argument) {
  constexpr std::size_t kOwnMiB = 8;
  const auto wanted = static_cast<std::size_t>(number_or(argument, 512)) * kMiB;
  if (available_mib() * kMiB < 4 * wanted) return broken("the host has too little memory for this");
  return let_a_child_take([&](std::atomic<std::size_t>& taken) {
    for (std::size_t i = 0; i < kOwnMiB; ++i) take_block();
    fill_connections(wanted, taken);
  });
}

Outcome res_fds(Argument) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return broken(errno_name(errno));
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) < 0) return broken("setrlimit " + errno_name(errno));
  for (int count = 0; count < kMaxDescriptors; ++count) {
    if (::dup(STDIN_FILENO) >= 0) continue;
    const std::string amount = std::to_string(count) + " descriptors";
    return errno == EMFILE ? denied("EMFILE after " + amount) : broken(errno_name(errno));
  }
  return allowed(std::to_string(kMaxDescriptors) + " descriptors");
}

Outcome res_memlock(Argument) {
  for (std::size_t mib = 0; mib < kMaxLockedMiB; ++mib) {
    void* block = ::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return broken("mmap " + errno_name(errno));
    if (::mlock(block, kMiB) == 0) continue;
    return denied(errno_name(errno) + " after " + std::to_string(mib) + " MiB");
  }
  return allowed(std::to_string(kMaxLockedMiB) + " MiB locked");
}

Outcome raise_rlimit(Argument) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return broken(errno_name(errno));
  ++limit.rlim_max;
  return judge(::setrlimit(RLIMIT_NOFILE, &limit));
}

[[noreturn]] void spin_until(std::chrono::steady_clock::time_point end, pid_t parent) {
  end_with_parent(parent);
  while (std::chrono::steady_clock::now() < end) {
  }
  ::_exit(0);
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// The argument is how many processors the box may use. Half as much again is allowed for the burst
// at the start of a period.
Outcome res_cpu(Argument argument) {
  const double limit = number_or(argument, 1.0);
  const pid_t parent = ::getpid();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kSpinners; ++i) {
    const pid_t child = ::fork();
    if (child < 0) return broken("fork " + errno_name(errno));
    if (child == 0) spin_until(start + kSpinTime, parent);
  }
  for (int i = 0; i < kSpinners; ++i) ::wait(nullptr);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  rusage usage{};
  if (::getrusage(RUSAGE_CHILDREN, &usage) < 0) return broken(errno_name(errno));
  const double used = (seconds(usage.ru_utime) + seconds(usage.ru_stime)) / wall.count();
  const std::string text = std::to_string(used) + " processors";
  return used <= limit * 1.5 ? denied(text) : allowed(text);
}

constexpr Check kChecks[] = {
    {"I15", "res_fork", res_fork},
    {"I15", "res_memory", res_memory},
    {"I15", "res_tcp_buffers", res_tcp_buffers},
    {"I15", "res_fds", res_fds},
    {"I15", "res_memlock", res_memlock},
    {"I15", "res_cpu", res_cpu},
    {"I15", "raise_rlimit", raise_rlimit},
};

}  // namespace

std::span<const Check> limit_checks() {
  return kChecks;
}

}  // namespace caisson::payload
