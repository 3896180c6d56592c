#pragma once
#include <sys/types.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace caisson {

// What to execute. The child gets exactly these descriptors, this environment and nothing else: no
// inherited descriptor, no blocked signal, no handler.
struct Command {
  UniqueFd program;                      // an open executable; when invalid, argv[0] is a path
  std::vector<std::string> argv;         //
  std::vector<std::string> env;          // "NAME=value"
  std::vector<std::pair<int, int>> fds;  // borrowed fd here -> number in the child
};

// A child is a pidfd with an owner: signals go through the pidfd, never to a bare pid, and the
// destructor kills and reaps.
class ChildProcess {
 public:
  ChildProcess() = default;
  // A process that another one made for us. It is not our child: its end is seen, its status is
  // not.
  ChildProcess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  bool running() const { return pidfd_.valid(); }  // not yet waited for
  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  bool ended() const;  // of one that runs: wait() would return at once

  // False when the process is gone already.
  bool kill(int signal_number) const;

  // It goes on without us.
  void let_go() {
    pid_ = -1;
    pidfd_.reset();
  }

  // Blocks until the end; the status is as of waitpid(2). The object is empty afterwards.
  int wait();

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

// Starts the command without copying this process's memory. Throws SystemError, naming argv[0],
// when it cannot be executed.
ChildProcess spawn(const Command& command);

// Runs `entry(argument)` in a child that shares this process's memory until it executes a program
// or exits, while this thread waits: no heap, no locks, no exceptions in there. `stack_top` is the
// end of a stack of its own. Returns the child's pid, or -1 with errno; with `pidfd`, its pidfd as
// well.
pid_t start_sharing_memory(int (*entry)(void*), void* argument, void* stack_top, int* pidfd);

}  // namespace caisson
