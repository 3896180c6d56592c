// exhaust: takes all it gets of everything that the kernel counts or keeps for the whole host.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"
#include "verbs.h"

namespace caisson::payload {
namespace {

// A bound for each, far above what a box may have, in case nothing else bounds it.
constexpr int kMostHeld = 60'000;
constexpr std::size_t kMostTcpBytes = 1u << 30;
constexpr std::size_t kMiB = 1u << 20;

// Takes one of a kind after the other until it gets none; errno says why. Nothing is given back.
template <typename Take>
int take_all(Take take, int most = kMostHeld) {
  errno = 0;
  int held = 0;
  while (held < most && take(held)) ++held;
  return held;
}

int take_inotify() {
  return take_all([](int) { return ::inotify_init1(0) >= 0; });
}

int take_timers() {
  return take_all([](int) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN;
    timer_t timer{};
    return ::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
  });
}

int take_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGRTMIN);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return take_all([](int) { return ::sigqueue(::getpid(), SIGRTMIN, {}) == 0; });
}

int take_queues() {
  return take_all([](int index) {
    const std::string name = "/exhaust-" + std::to_string(index);
    return ::mq_open(name.c_str(), O_RDWR | O_CREAT, 0600, nullptr) >= 0;
  });
}

int take_aio() {
  return take_all([](int) {
    aio_context_t context = 0;
    return ::syscall(SYS_io_setup, 1000, &context) == 0;
  });
}

int take_filters() {
  static sock_filter accept[] = {BPF_STMT(BPF_RET | BPF_K, 0xffffffff)};
  return take_all([](int) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    const sock_fprog program{1, accept};
    return fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
  });
}

int take_leases() {
  return take_all([](int index) {
    const std::string name = "/tmp/lease-" + std::to_string(index);
    const int fd = ::open(name.c_str(), O_RDONLY | O_CREAT, 0600);
    return fd >= 0 && ::fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
  });
}

int take_descriptors() {
  return take_all([](int) { return ::dup(STDIN_FILENO) >= 0; });
}

int take_inodes() {
  return take_all([](int index) {
    const std::string name = "/tmp/inode-" + std::to_string(index);
    return UniqueFd(::open(name.c_str(), O_WRONLY | O_CREAT, 0600)).valid();
  });
}

// In MiB, as the ones after it.
int take_scratch() {
  const int fd = ::open("/dev/shm/full", O_WRONLY | O_CREAT, 0600);
  const std::string block(kMiB, 'x');
  return take_all([&](int) {
    return ::write(fd, block.data(), block.size()) == static_cast<ssize_t>(block.size());
  });
}

int take_tcp() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, generic, length) < 0 || ::listen(listener, 16) < 0 ||
      ::getsockname(listener, generic, &length) < 0) {
    return 0;
  }
  const std::string block(1 << 16, 'x');
  std::size_t queued = 0;
  take_all(
      [&](int) {
        const int near = ::socket(AF_INET, SOCK_STREAM, 0);
        if (near < 0 || ::connect(near, generic, length) < 0) return false;
        if (::accept(listener, nullptr, nullptr) < 0) return false;
        for (ssize_t sent = 0; sent >= 0 && queued < kMostTcpBytes;) {
          sent = ::send(near, block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
          if (sent > 0) queued += static_cast<std::size_t>(sent);
        }
        return queued < kMostTcpBytes;
      },
      1000);
  return static_cast<int>(queued / kMiB);
}

int take_memory() {
  return take_all(
      [](int) {
        void* block =
            ::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) return false;
        std::memset(block, 1, kMiB);
        return true;
      },
      4096);
}

int take_processes() {
  return take_all(
      [parent = ::getpid()](int) {
        const pid_t child = ::fork();
        if (child == 0) {
          end_with_parent(parent);
          for (;;) ::pause();
        }
        return child > 0;
      },
      4096);
}

struct Kind {
  const char* name;
  int (*take)();
};
// What takes memory comes late, and what leaves no process for the next last.
constexpr Kind kKinds[] = {
    {"inotify", take_inotify},         {"timers", take_timers},   {"signals", take_signals},
    {"queues", take_queues},           {"aio", take_aio},         {"filters", take_filters},
    {"leases", take_leases},           {"inodes", take_inodes},   {"tcp", take_tcp},
    {"descriptors", take_descriptors}, {"scratch", take_scratch}, {"memory", take_memory},
    {"processes", take_processes},
};

// In a process of its own, which keeps what it got until this one ends. A line tells how much, none
// that the kernel killed it for it.
std::string exhaust(const Kind& kind) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return std::string(kind.name) + " no pipe";
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return std::string(kind.name) + " no process";
  if (child == 0) {
    end_with_parent(parent);
    const int held = kind.take();
    const std::string line = std::to_string(held) + " " + errno_name(errno);
    [[maybe_unused]] const ssize_t put = ::write(ends[1], line.data(), line.size());
    ::close(ends[1]);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  char line[128] = {};
  const ssize_t got = ::read(ends[0], line, sizeof line - 1);
  ::close(ends[0]);
  return std::string(kind.name) + " " + (got > 0 ? line : "killed");
}

}  // namespace

int run_exhaust(const Words&) {
  for (const Kind& kind : kKinds) {
    std::printf("%s\n", exhaust(kind).c_str());
    std::fflush(stdout);
  }
  std::printf("exhausted\n");
  std::fflush(stdout);
  wait_for_end_of_input();
  return 0;
}

}  // namespace caisson::payload
