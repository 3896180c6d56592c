#include "host_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::benchmarks {

namespace {

struct ChildEnds {
  UniqueFd in;
  UniqueFd out;
  UniqueFd err;
};

pid_t start_posix_spawn(char* const* argv, const ChildEnds& ends) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends.in.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends.out.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, ends.err.get(), 2);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv, ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw SystemError(argv[0], error);
  return pid;
}

pid_t start_vfork(char* const* argv, const ChildEnds& ends) {
  volatile int error = 0;       // the child writes it before it ends
  const pid_t pid = ::vfork();  // NOLINT: the cheapest way there is; that is why it is measured
  if (pid == 0) {
    if (::dup2(ends.in.get(), 0) >= 0 && ::dup2(ends.out.get(), 1) >= 0 &&
        ::dup2(ends.err.get(), 2) >= 0) {
      ::execvp(argv[0], argv);
    }
    error = errno;
    ::_exit(127);
  }
  check_syscall("vfork", pid);
  if (error == 0) return pid;
  ::waitpid(pid, nullptr, 0);
  throw SystemError(argv[0], error);
}

// Reads both streams to their end; false when the deadline comes first.
bool drain(const UniqueFd (&pipes)[2], Captured& captured, std::optional<Deadline> deadline) {
  pollfd events[2] = {{pipes[0].get(), POLLIN, 0}, {pipes[1].get(), POLLIN, 0}};
  std::string* const targets[2] = {&captured.out, &captured.err};
  while (events[0].fd >= 0 || events[1].fd >= 0) {
    int wait = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
      if (left.count() <= 0) return false;
      wait = static_cast<int>(left.count());
    }
    const int ready = ::poll(events, 2, wait);
    if (ready < 0 && errno != EINTR) throw SystemError("poll", errno);
    for (int i = 0; ready > 0 && i < 2; ++i) {
      if (events[i].fd < 0 || events[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = ::read(events[i].fd, buffer, sizeof buffer);
      if (got > 0) targets[i]->append(buffer, static_cast<std::size_t>(got));
      if (got == 0 || (got < 0 && errno != EINTR)) events[i].fd = -1;
    }
  }
  return true;
}

}  // namespace

Captured run_captured(const std::vector<std::string>& argv, Spawn spawn,
                      std::optional<std::chrono::milliseconds> timeout) {
  std::vector<char*> pointers;
  pointers.reserve(argv.size() + 1);
  for (const std::string& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  std::optional<Deadline> deadline;
  if (timeout) deadline = Clock::now() + *timeout;

  auto [out_read, out_write] = make_pipe();
  auto [err_read, err_write] = make_pipe();
  ChildEnds ends{open_file("/dev/null", O_RDONLY), std::move(out_write), std::move(err_write)};
  const pid_t pid = spawn == Spawn::posix_spawn ? start_posix_spawn(pointers.data(), ends)
                                                : start_vfork(pointers.data(), ends);
  ends = ChildEnds();
  const UniqueFd pipes[2] = {std::move(out_read), std::move(err_read)};
  Captured captured;
  captured.timed_out = !drain(pipes, captured, deadline);
  if (captured.timed_out) ::kill(pid, SIGKILL);
  while (::waitpid(pid, &captured.status, 0) < 0) {
    if (errno != EINTR) throw SystemError(argv[0], errno);
  }
  return captured;
}

void run_checked(const std::vector<std::string>& argv, Spawn spawn) {
  const Captured captured = run_captured(argv, spawn);
  if (captured.status == 0) return;
  throw Error(ErrorCode::command_not_started, str(argv[0], " ended with wait status ",
                                                  captured.status, ": ", printable(captured.err)));
}

const std::vector<std::string>& trivial_command() {
  static const std::vector<std::string> command{"/bin/sh", "-c", "true"};
  return command;
}

}  // namespace caisson::benchmarks
