#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstddef>

#include "base/error.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace caisson {

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    if (running()) {
      kill(SIGKILL);
      wait();
    }
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  kill(SIGKILL);
  wait();
}

bool ChildProcess::kill(int signal_number) const {
  return ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal_number, nullptr, 0) == 0;
}

bool ChildProcess::ended() const {
  pollfd ended{pidfd_.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) > 0;
}

int ChildProcess::wait() {
  // The end is awaited through the pidfd: it tells of processes that are not our children, too.
  pollfd ended{pidfd_.get(), POLLIN, 0};
  while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info,
                      WEXITED | __WALL);
  } while (result < 0 && errno == EINTR);
  pidfd_.reset();
  pid_ = -1;
  if (result < 0) return 0;  // reaped elsewhere: the end is certain, the status is not known
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xff) << 8;
  return info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

pid_t start_sharing_memory(int (*entry)(void*), void* argument, void* stack_top, int* pidfd) {
  const int flags = CLONE_VM | CLONE_VFORK | (pidfd != nullptr ? CLONE_PIDFD : 0) | SIGCHLD;
  // A handler that ran in the child would run on this process's memory.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = ::clone(entry, stack_top, flags, argument, pidfd);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

namespace {

struct SpawnPlan {
  int program;
  const char* path;
  char* const* argv;
  char* const* env;
  std::pair<int, int>* fds;
  std::size_t fd_count;
  int error = 0;
};

// Runs in the child, on shared memory. Moves every wanted descriptor out of the way of the target
// numbers first, so that no dup2 destroys a source that is still needed.
int execute(void* argument) {
  auto& plan = *static_cast<SpawnPlan*>(argument);
  struct sigaction defaults {};
  defaults.sa_handler = SIG_DFL;
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) {
    ::sigaction(signal_number, &defaults, nullptr);
  }
  int highest = 2;
  for (std::size_t i = 0; i < plan.fd_count; ++i) highest = std::max(highest, plan.fds[i].second);
  int program = plan.program;
  if (program >= 0) {
    program = ::fcntl(program, F_DUPFD_CLOEXEC, highest + 1);
    if (program < 0) goto failed;
  }
  for (std::size_t i = 0; i < plan.fd_count; ++i) {
    plan.fds[i].first = ::fcntl(plan.fds[i].first, F_DUPFD_CLOEXEC, highest + 1);
    if (plan.fds[i].first < 0) goto failed;
  }
  ::syscall(SYS_close_range, 0u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
  for (std::size_t i = 0; i < plan.fd_count; ++i) {
    if (::dup2(plan.fds[i].first, plan.fds[i].second) < 0) goto failed;
  }
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  if (program >= 0) {
    ::syscall(SYS_execveat, program, "", plan.argv, plan.env, AT_EMPTY_PATH);
  } else {
    ::execve(plan.path, plan.argv, plan.env);
  }
failed:
  plan.error = errno;
  ::_exit(127);
}

std::vector<char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ChildProcess spawn(const Command& command) {
  if (command.argv.empty()) throw Error(ErrorCode::internal_error, "a command without a name");
  const std::vector<char*> argv = c_strings(command.argv);
  const std::vector<char*> env = c_strings(command.env);
  std::vector<std::pair<int, int>> fds = command.fds;
  SpawnPlan plan{.program = command.program.get(),
                 .path = argv[0],
                 .argv = argv.data(),
                 .env = env.data(),
                 .fds = fds.data(),
                 .fd_count = fds.size()};
  std::vector<std::max_align_t> stack(64ul * 1024 / sizeof(std::max_align_t));
  int pidfd = -1;
  const pid_t pid = start_sharing_memory(execute, &plan, stack.data() + stack.size(), &pidfd);
  check_syscall(command.argv[0], pid);
  ChildProcess child(pid, UniqueFd(pidfd));
  if (plan.error != 0) {
    child.wait();
    throw SystemError(command.argv[0], plan.error);
  }
  return child;
}

}  // namespace caisson
