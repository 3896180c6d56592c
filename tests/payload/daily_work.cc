// daily-work DIRECTORY [host]: a little of everything that programs ask the kernel for.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sys/file.h>
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

constexpr std::size_t kMiB = 1u << 20;

bool watch_a_directory(const std::string& directory) {
  const UniqueFd events(::inotify_init1(IN_CLOEXEC));
  return events && ::inotify_add_watch(events.get(), directory.c_str(), IN_CREATE) >= 0;
}

bool make_a_timer(const std::string&) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGRTMIN;
  timer_t timer{};
  return ::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && ::timer_delete(timer) == 0;
}

bool queue_a_signal(const std::string&) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGRTMIN);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  const timespec patience{10, 0};
  return ::sigqueue(::getpid(), SIGRTMIN, {}) == 0 &&
         ::sigtimedwait(&set, nullptr, &patience) == SIGRTMIN;
}

bool open_a_message_queue(const std::string&) {
  const std::string name = "/daily-work-" + std::to_string(::getpid());
  const mqd_t queue = ::mq_open(name.c_str(), O_RDWR | O_CREAT, 0600, nullptr);
  return queue >= 0 && ::mq_close(queue) == 0 && ::mq_unlink(name.c_str()) == 0;
}

bool lock_a_file(const std::string& directory) {
  const std::string name = directory + "/daily-lock";
  const UniqueFd file(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock lock {};
  lock.l_type = F_WRLCK;
  return file && ::fcntl(file.get(), F_SETLK, &lock) == 0 &&
         ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && ::unlink(name.c_str()) == 0;
}

bool write_a_file(const std::string& directory) {
  const std::string name = directory + "/daily-file";
  const UniqueFd file(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const std::string block(kMiB, 'x');
  return file &&
         ::write(file.get(), block.data(), block.size()) == static_cast<ssize_t>(block.size()) &&
         ::unlink(name.c_str()) == 0;
}

bool send_through_tcp(const std::string&) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const UniqueFd near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), generic, length) < 0 || ::listen(listener.get(), 1) < 0 ||
      ::getsockname(listener.get(), generic, &length) < 0 ||
      ::connect(near.get(), generic, length) < 0) {
    return false;
  }
  const UniqueFd far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::string block(1 << 14, 'x');
  for (int i = 0; i < 64; ++i) {
    if (::send(near.get(), block.data(), block.size(), MSG_NOSIGNAL) < 0) return false;
    for (std::size_t got = 0; got < block.size();) {
      const ssize_t more = ::recv(far.get(), block.data(), block.size() - got, 0);
      if (more <= 0) return false;
      got += static_cast<std::size_t>(more);
    }
  }
  return true;
}

bool use_some_memory(const std::string&) {
  void* block =
      ::mmap(nullptr, 16 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return false;
  std::memset(block, 1, 16 * kMiB);
  return ::munmap(block, 16 * kMiB) == 0;
}

bool start_some_processes(const std::string&) {
  for (int i = 0; i < 10; ++i) {
    const pid_t child = ::fork();
    if (child < 0) return false;
    if (child == 0) {
      ::execl("/proc/self/exe", "caisson-payload", "exit", "0", nullptr);
      ::_exit(1);
    }
    int status = -1;
    if (::waitpid(child, &status, 0) < 0 || status != 0) return false;
  }
  return true;
}

bool set_up_aio(const std::string&) {
  aio_context_t context = 0;
  return ::syscall(SYS_io_setup, 16, &context) == 0 && ::syscall(SYS_io_destroy, context) == 0;
}

bool filter_a_socket(const std::string&) {
  sock_filter accept[] = {BPF_STMT(BPF_RET | BPF_K, 0xffffffff)};
  const sock_fprog program{1, accept};
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return ::setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

struct Work {
  const char* name;
  bool (*run)(const std::string& directory);
  bool host_only = false;  // a box's filter refuses it
};
constexpr Work kWork[] = {
    {"watch a directory", watch_a_directory},
    {"make a timer", make_a_timer},
    {"queue a signal", queue_a_signal},
    {"open a message queue", open_a_message_queue},
    {"lock a file", lock_a_file},
    {"write a file", write_a_file},
    {"send through TCP", send_through_tcp},
    {"use some memory", use_some_memory},
    {"start some processes", start_some_processes},
    {"set up AIO", set_up_aio, true},
    {"filter a socket", filter_a_socket, true},
};

}  // namespace

int run_daily_work(const Words& words) {
  bool well = true;
  for (const Work& work : kWork) {
    if (work.host_only && words.size() < 2) continue;
    if (work.run(words.at(0))) continue;
    std::printf("cannot %s: %s\n", work.name, errno_name(errno).c_str());
    well = false;
  }
  if (well) std::printf("done\n");
  return well ? 0 : 1;
}

}  // namespace caisson::payload
