#include "verbs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr std::size_t kMiB = 1u << 20;
constexpr int kUsage = 2;
constexpr unsigned kDaemonSeconds = 600;  // a daemon that nobody ends goes away by itself

std::string word(const Words& words, std::size_t index) {
  return index < words.size() ? words[index] : std::string();
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

bool write_fully(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

void sleep_for(double seconds) {
  timespec left{};
  left.tv_sec = static_cast<time_t>(seconds);
  left.tv_nsec = static_cast<long>((seconds - static_cast<double>(left.tv_sec)) * 1e9);
  while (::nanosleep(&left, &left) < 0 && errno == EINTR) {
  }
}

int run_exit(const Words& words) {
  return std::atoi(word(words, 0).c_str());
}

int run_kill(const Words& words) {
  const int number = std::atoi(word(words, 0).c_str());
  if (::kill(::getpid(), number) < 0) return kUsage;
  sleep_for(1);
  return 0;
}

// Under this name, in a way that makes a core. The limit is what a shell's `ulimit -c` sets.
int run_crash(const Words& words) {
  ::prctl(PR_SET_NAME, word(words, 0).c_str(), 0, 0, 0);
  if (words.size() > 1) {
    const auto bytes = static_cast<rlim_t>(std::atoi(words[1].c_str()));
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_CORE, &limit);
  }
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  std::abort();
}

int run_spin(const Words& words) {
  const double seconds = number_or(word(words, 0), 1);
  timespec spent{};
  do {
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  } while (static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) / 1e9 < seconds);
  return 0;
}

int run_hog(const Words& words) {
  const auto mib = static_cast<std::size_t>(number_or(word(words, 0), 1));
  for (std::size_t i = 0; i < mib; ++i) {
    void* block = ::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
      say("refused " + errno_name(errno) + " at " + std::to_string(i));
      return 1;
    }
    std::memset(block, 1, kMiB);
  }
  say("held " + std::to_string(mib));
  return 0;
}

// The children end with this process, and it ends with its standard input.
int run_fork_bomb(const Words& words) {
  const int wanted = std::atoi(word(words, 0).c_str());
  const pid_t parent = ::getpid();
  int made = 0;
  for (; made < wanted; ++made) {
    const pid_t child = ::fork();
    if (child < 0) break;
    if (child == 0) {
      end_with_parent(parent);
      for (;;) ::pause();
    }
  }
  say("forked " + std::to_string(made));
  wait_for_end_of_input();
  return 0;
}

// Numbered lines of 16 bytes, so that a reader can tell what is missing; 0 bytes: without end.
int run_flood(const Words& words) {
  const unsigned long long wanted = std::strtoull(word(words, 0).c_str(), nullptr, 10);
  unsigned long long line = 0;
  std::string block;
  for (unsigned long long sent = 0; wanted == 0 || sent < wanted; sent += block.size()) {
    block.clear();
    while (block.size() < (1u << 16)) {
      char text[17];
      std::snprintf(text, sizeof text, "%015llu\n", line++);
      block += text;
    }
    if (wanted != 0 && wanted - sent < block.size()) block.resize(wanted - sent);
    if (!write_fully(STDOUT_FILENO, block.data(), block.size())) return 1;
  }
  return 0;
}

int run_sleep(const Words& words) {
  sleep_for(number_or(word(words, 0), 1));
  return 0;
}

// Leaves a process behind that is in a session of its own and keeps standard output open.
int run_daemonise(const Words&) {
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child > 0) return 0;
  if (::setsid() < 0) return 1;
  const pid_t grandchild = ::fork();
  if (grandchild < 0) return 1;
  if (grandchild > 0) ::_exit(0);
  say("daemon " + std::to_string(::getpid()));
  sleep_for(kDaemonSeconds);
  ::_exit(0);
}

int run_ignore_term(const Words&) {
  if (::signal(SIGTERM, SIG_IGN) == SIG_ERR) return 1;
  say("ready");
  sleep_for(kDaemonSeconds);
  return 0;
}

int run_print_env(const Words&) {
  for (char** entry = environ; *entry != nullptr; ++entry) say(*entry);
  return 0;
}

int run_print_fds(const Words&) {
  for (const int fd : open_descriptors()) {
    char target[256] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), target, sizeof target - 1) < 0) target[0] = '?';
    say(std::to_string(fd) + " " + target);
  }
  return 0;
}

int run_cat(const Words& words) {
  const UniqueFd file(words.empty() ? -1 : ::open(words[0].c_str(), O_RDONLY | O_CLOEXEC));
  if (!words.empty() && !file) {
    std::fprintf(stderr, "%s: %s\n", words[0].c_str(), errno_name(errno).c_str());
    return 1;
  }
  const int source = file ? file.get() : STDIN_FILENO;
  std::string buffer(1 << 16, '\0');
  for (;;) {
    const ssize_t length = ::read(source, buffer.data(), buffer.size());
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return length == 0 ? 0 : 1;
    if (!write_fully(STDOUT_FILENO, buffer.data(), static_cast<std::size_t>(length))) return 1;
  }
}

int run_echo(const Words& words) {
  std::string line;
  for (const std::string& piece : words) line += (line.empty() ? "" : " ") + piece;
  say(line);
  return 0;
}

int run_hold_fds(const Words& words) {
  const int wanted = std::atoi(word(words, 0).c_str());
  int held = 0;
  while (held < wanted && ::dup(STDIN_FILENO) >= 0) ++held;
  say("held " + std::to_string(held));
  wait_for_end_of_input();
  return 0;
}

// Stops whatever it may, and above all what has our user but not its program yet.
int run_stop_others(const Words&) {
  say("stopping");
  for (;;) ::kill(-1, SIGSTOP);
}

// A process that has been killed is its tracer's until the tracer has waited for it: this one has a
// tracer who never does, in a session of its own.
int run_held_by_tracer(const Words&) {
  const pid_t self = ::getpid();
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child == 0) {
    if (::setsid() < 0 || ::ptrace(PTRACE_SEIZE, self, nullptr, nullptr) < 0) ::_exit(1);
    say("held");
    for (;;) ::pause();
  }
  for (;;) ::pause();
}

constexpr Verb kVerbs[] = {
    {"exit", "CODE", run_exit},
    {"kill", "SIGNAL       (a number, sent to itself)", run_kill},
    {"crash", "NAME [LIMIT] (of core files)", run_crash},
    {"spin", "SECONDS      (of processor time)", run_spin},
    {"hog", "MIB", run_hog},
    {"fork-bomb", "N            (held until standard input ends)", run_fork_bomb},
    {"flood", "BYTES        (0: without end)", run_flood},
    {"sleep", "SECONDS", run_sleep},
    {"daemonise", "", run_daemonise},
    {"ignore-term", "", run_ignore_term},
    {"print-env", "", run_print_env},
    {"print-fds", "", run_print_fds},
    {"cat", "[FILE]", run_cat},
    {"echo", "[WORD...]", run_echo},
    {"hold-fds", "N            (held until standard input ends)", run_hold_fds},
    {"hold-count", "KIND         (inotify, signals, timers or queues; likewise)", run_hold_count},
    {"hold-locks", "FILE N [orphan] (held until standard input ends)", run_hold_locks},
    {"hold-netlink", "N            (held until standard input ends)", run_hold_netlink},
    {"watch", "DIRECTORY    (until standard input ends)", run_watch},
    {"flock", "FILE         (held until standard input ends)", run_flock},
    {"stop-others", "            (until it is killed)", run_stop_others},
    {"exhaust", "             (all held until standard input ends)", run_exhaust},
    {"daily-work", "DIRECTORY [host]", run_daily_work},
    {"held-by-tracer", "", run_held_by_tracer},
    {"fixture", "NAME KEY FILE (held until standard input ends)", run_fixture},
};

}  // namespace

std::span<const Verb> verbs() {
  return kVerbs;
}

}  // namespace caisson::payload
