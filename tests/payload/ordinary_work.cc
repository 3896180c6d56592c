// Row I16: what ordinary programs do goes on working. Denials alone would praise a box in which
// nothing runs.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr std::string_view kText = "ordinary work";

Outcome failed(const std::string& what) {
  return broken(what + " " + errno_name(errno));
}

bool send_and_receive(int from, int to) {
  char buffer[64] = {};
  if (::write(from, kText.data(), kText.size()) != static_cast<ssize_t>(kText.size())) return false;
  const ssize_t length = ::read(to, buffer, sizeof buffer);
  return length > 0 && std::string_view(buffer, static_cast<std::size_t>(length)) == kText;
}

// The exit code of the program, or -1.
int run_program(const char* path, std::vector<const char*> argv) {
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return -1;
  if (child == 0) {
    ::execve(path, const_cast<char* const*>(argv.data()), environ);
    ::_exit(127);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

Outcome ok_fork_exec(Argument) {
  if (run_program("/proc/self/exe", {"caisson-payload", "exit", "7"}) != 7) return failed("exec");
  if (run_program("/bin/sh", {"sh", "-c", "exit 8"}) != 8) return failed("/bin/sh");
  return ok("exec and a shell");
}

Outcome ok_threads(Argument) {
  std::atomic<int> count = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&count] { ++count; });
  }
  return count == 4 ? ok("4 threads") : broken(std::to_string(count) + " of 4 threads");
}

// Makes, writes, renames, links, reads back and removes a file.
Outcome use_directory(const std::string& parent) {
  const TempDir directory(parent);
  if (!directory.valid()) return failed(parent);
  const std::string path = directory.file("a");
  const UniqueFd fd(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (!fd) return failed("open");
  if (::write(fd.get(), kText.data(), kText.size()) < 0) return failed("write");
  if (::fsync(fd.get()) < 0) return failed("fsync");
  if (::rename(path.c_str(), directory.file("b").c_str()) < 0) return failed("rename");
  if (::symlink("b", directory.file("link").c_str()) < 0) return failed("symlink");
  if (::chmod(directory.file("b").c_str(), 0755) < 0) return failed("chmod");
  if (::mkfifo(directory.file("fifo").c_str(), 0600) < 0) return failed("mkfifo");
  if (content_of(directory.file("link")) != kText) return broken("the content is not what it was");
  return ok(parent);
}

Outcome ok_tmp(Argument) {
  return use_directory("/tmp");
}
Outcome ok_workspace(Argument path) {
  return use_directory(path.empty() ? "/workspace" : path);
}
Outcome ok_home(Argument) {
  const char* home = std::getenv("HOME");
  return home == nullptr ? broken("HOME is not set") : use_directory(home);
}

Outcome ok_dev_null(Argument) {
  char byte = 1;
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null || ::write(null.get(), "x", 1) != 1) return failed("/dev/null");
  if (::read(null.get(), &byte, 1) != 0) return broken("/dev/null has content");
  const UniqueFd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  if (!zero || ::read(zero.get(), &byte, 1) != 1 || byte != 0) return failed("/dev/zero");
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full || ::write(full.get(), "x", 1) != -1 || errno != ENOSPC) return failed("/dev/full");
  return ok("null, zero, full");
}

Outcome ok_urandom(Argument) {
  unsigned char bytes[16] = {};
  for (const char* path : {"/dev/urandom", "/dev/random"}) {
    const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
    if (!fd || ::read(fd.get(), bytes, sizeof bytes) <= 0) return failed(path);
  }
  return ::getrandom(bytes, sizeof bytes, 0) == sizeof bytes ? ok("16 bytes") : failed("getrandom");
}

// Code made at run time: written, then turned executable, as every just-in-time compiler does.
Outcome ok_jit(Argument) {
#if defined(__x86_64__)
  const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};  // mov eax, 42; ret
#elif defined(__aarch64__)
  const unsigned char code[] = {0x40, 0x05, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6};  // mov w0, 42; ret
#else
#error "no machine code for this processor"
#endif
  for (const int first : {PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE | PROT_EXEC}) {
    void* memory = ::mmap(nullptr, 4096, first, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return failed("mmap");
    std::memcpy(memory, code, sizeof code);
    if (::mprotect(memory, 4096, PROT_READ | PROT_EXEC) < 0) return failed("mprotect");
    __builtin___clear_cache(static_cast<char*>(memory), static_cast<char*>(memory) + sizeof code);
    const int answer = reinterpret_cast<int (*)()>(memory)();
    if (answer != 42) return broken("the code answered " + std::to_string(answer));
  }
  return ok("made code runs");
}

Outcome ok_loopback(Argument) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || ::bind(listener.get(), generic, length) < 0) return failed("bind");
  if (::listen(listener.get(), 1) < 0) return failed("listen");
  if (::getsockname(listener.get(), generic, &length) < 0) return failed("getsockname");
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!client || ::connect(client.get(), generic, length) < 0) return failed("connect");
  const UniqueFd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!server || !send_and_receive(client.get(), server.get())) return failed("transfer");
  return ok("127.0.0.1");
}

Outcome ok_socketpair(Argument) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) return failed("socketpair");
  const UniqueFd first(ends[0]), second(ends[1]);
  return send_and_receive(first.get(), second.get()) ? ok("both ends") : failed("transfer");
}

Outcome ok_pty(Argument) {
  const UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!master) return failed("posix_openpt");
  if (::grantpt(master.get()) < 0 || ::unlockpt(master.get()) < 0) return failed("unlockpt");
  const char* name = ::ptsname(master.get());
  if (name == nullptr) return failed("ptsname");
  const UniqueFd slave(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!slave) return failed(name);
  return send_and_receive(slave.get(), master.get()) ? ok(name) : failed("transfer");
}

Outcome ok_shm(Argument) {
  const std::string name = "/caisson-probe-" + std::to_string(::getpid());
  const UniqueFd fd(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
  if (!fd) return failed("shm_open");
  ::shm_unlink(name.c_str());
  if (::ftruncate(fd.get(), 4096) < 0) return failed("ftruncate");
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return failed("mmap");
  std::memcpy(memory, kText.data(), kText.size());
  return ok("/dev/shm");
}

Outcome ok_memfd(Argument) {
  const UniqueFd fd(::memfd_create("caisson-probe", MFD_CLOEXEC));
  return fd && ::write(fd.get(), "x", 1) == 1 ? ok("memfd") : failed("memfd_create");
}

Outcome ok_clock(Argument) {
  const auto start = std::chrono::steady_clock::now();
  const timespec pause{0, 2'000'000};
  if (::nanosleep(&pause, nullptr) < 0) return failed("nanosleep");
  const auto elapsed = std::chrono::steady_clock::now() - start;
  if (elapsed < std::chrono::milliseconds(2)) return broken("the clock does not advance");
  return ::time(nullptr) > 1'600'000'000 ? ok("both clocks") : broken("the wall clock is wrong");
}

volatile std::sig_atomic_t signals_seen = 0;
void note_signal(int) {
  signals_seen = signals_seen + 1;
}

Outcome ok_signals(Argument) {
  struct sigaction action {};
  action.sa_handler = note_signal;
  if (::sigaction(SIGUSR1, &action, nullptr) < 0) return failed("sigaction");
  if (::kill(::getpid(), SIGUSR1) < 0 || ::raise(SIGUSR1) != 0) return failed("kill");
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) < 0) return failed("sigprocmask");
  if (::kill(::getpid(), SIGTERM) < 0) return failed("kill");
  const timespec second{1, 0};
  if (::sigtimedwait(&set, nullptr, &second) != SIGTERM) return failed("sigtimedwait");
  return signals_seen == 2 ? ok("handled and awaited") : broken("signals lost");
}

Outcome ok_event_fds(Argument) {
  const UniqueFd poller(::epoll_create1(EPOLL_CLOEXEC));
  const UniqueFd counter(::eventfd(1, EFD_CLOEXEC));
  const UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const UniqueFd watcher(::inotify_init1(IN_CLOEXEC));
  if (!poller || !counter || !timer || !watcher) return failed("epoll, eventfd, timerfd, inotify");
  epoll_event event{.events = EPOLLIN, .data = {.fd = counter.get()}};
  if (::epoll_ctl(poller.get(), EPOLL_CTL_ADD, counter.get(), &event) < 0)
    return failed("epoll_ctl");
  if (::epoll_wait(poller.get(), &event, 1, 1000) != 1) return failed("epoll_wait");
  if (::inotify_add_watch(watcher.get(), "/tmp", IN_CREATE) < 0) return failed("inotify_add_watch");
  return ok("epoll, eventfd, timerfd, inotify");
}

Outcome ok_std_links(Argument) {
  for (const char* path : {"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/0"}) {
    struct stat status {};
    if (::stat(path, &status) < 0) return failed(path);
  }
  return ok("/dev/stdin, stdout, stderr, fd");
}

// What node, the JVM, ps, free, top and uptime read.
Outcome ok_proc_tools(Argument) {
  for (const char* path :
       {"/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/vmstat", "/proc/loadavg",
        "/proc/uptime", "/proc/version", "/proc/filesystems", "/proc/cgroups", "/proc/mounts",
        "/proc/net/dev", "/proc/sysvipc/shm", "/proc/tty/drivers", "/proc/sys/kernel/pid_max",
        "/proc/sys/kernel/osrelease"}) {
    if (content_of(path).empty()) return broken(std::string(path) + " tells nothing");
  }
  // Linux 6.1 shows nothing of net/core in a network namespace that an ordinary user made.
  constexpr const char* kBacklog = "/proc/sys/net/core/somaxconn";
  if (::access(kBacklog, F_OK) == 0 && content_of(kBacklog).empty()) {
    return broken(std::string(kBacklog) + " tells nothing");
  }
  return ok("all can be read");
}

// gpg and ssh-agent give up when they cannot.
Outcome ok_no_core(Argument) {
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) < 0) return failed("setrlimit");
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) < 0) return failed("getrlimit");
  return limit.rlim_cur <= 1 && limit.rlim_max <= 1 ? ok("set") : broken("cores are written");
}

Outcome ok_proc_self(Argument) {
  for (const char* path : {"/proc/self/status", "/proc/self/maps", "/proc/cpuinfo", "/proc/meminfo",
                           "/proc/loadavg", "/proc/uptime", "/proc/sys/kernel/random/uuid"}) {
    if (content_of(path).empty()) return failed(path);
  }
  return ok("what tools read");
}

constexpr Check kChecks[] = {
    {"I16", "ok_fork_exec", ok_fork_exec},
    {"I16", "ok_threads", ok_threads},
    {"I16", "ok_tmp", ok_tmp},
    {"I16", "ok_workspace", ok_workspace},
    {"I16", "ok_home", ok_home},
    {"I16", "ok_dev_null", ok_dev_null},
    {"I16", "ok_urandom", ok_urandom},
    {"I16", "ok_jit", ok_jit},
    {"I16", "ok_loopback", ok_loopback},
    {"I16", "ok_socketpair", ok_socketpair},
    {"I16", "ok_pty", ok_pty},
    {"I16", "ok_shm", ok_shm},
    {"I16", "ok_memfd", ok_memfd},
    {"I16", "ok_clock", ok_clock},
    {"I16", "ok_signals", ok_signals},
    {"I16", "ok_event_fds", ok_event_fds},
    {"I16", "ok_std_links", ok_std_links},
    {"I16", "ok_proc_self", ok_proc_self},
    {"I16", "ok_proc_tools", ok_proc_tools},
    {"I16", "ok_no_core", ok_no_core},
};

}  // namespace

std::span<const Check> work_checks() {
  return kChecks;
}

}  // namespace caisson::payload
