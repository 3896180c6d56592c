#include "guest/payload.h"

#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/child_process.h"
#include "guest/lockdown.h"

namespace caisson::guest {

namespace {

// Everything the child needs, prepared beforehand: from here on it shares the guest's memory and
// makes system calls only.
struct Child {
  const int* cgroups;
  std::size_t cgroup_count;
  int fds[wire::kMaxStartFds];
  int fd_count;
  bool is_terminal;  // they are one, and it becomes the controlling one
  std::uint32_t uid;
  std::uint32_t gid;
  const char* cwd;
  char* const* argv;
  char* const* env;
  char* const* programs;  // candidates in the order of PATH, null at the end
  void (*check)(void*);   // instead of a program
  void* argument;

  bool failed = false;
  wire::StartStep step = wire::StartStep::request;
  int error_number = 0;
};

[[noreturn]] void fail(Child& child, wire::StartStep step) {
  child.failed = true;
  child.step = step;
  child.error_number = errno;
  ::_exit(127);
}

void take_descriptors(Child& child) {
  const int count = child.fd_count;
  for (int i = 0; i < count; ++i) {
    int& fd = child.fds[i];
    if (fd < count) fd = ::fcntl(fd, F_DUPFD_CLOEXEC, count);
    if (fd < 0) fail(child, wire::StartStep::descriptors);
  }
  for (int i = 0; i < count; ++i) {
    if (::dup2(child.fds[i], i) < 0) fail(child, wire::StartStep::descriptors);
  }
  if (child.is_terminal && ::ioctl(0, TIOCSCTTY, 0) < 0) {
    fail(child, wire::StartStep::descriptors);
  }
  // Closing at exec rather than now keeps the guest's own descriptors, which the child shares only
  // by copy.
  const auto first_other = static_cast<unsigned>(count);
  if (::syscall(SYS_close_range, first_other, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) < 0) {
    fail(child, wire::StartStep::descriptors);
  }
}

void take_identity(Child& child) {
  if (::syscall(SYS_setresgid, child.gid, child.gid, child.gid) < 0 ||
      ::syscall(SYS_setresuid, child.uid, child.uid, child.uid) < 0 ||
      drop_all_capabilities() < 0) {
    fail(child, wire::StartStep::identity);
  }
}

// Enters the directory, making it and its parents first when they are missing, as the payload's
// user.
void enter_directory(Child& child) {
  if (::chdir(child.cwd) == 0) return;
  if (errno != ENOENT) fail(child, wire::StartStep::directory);
  char path[4096];
  const std::size_t length = ::strlen(child.cwd);
  if (length >= sizeof path) {
    errno = ENAMETOOLONG;
    fail(child, wire::StartStep::directory);
  }
  for (std::size_t i = 1; i <= length; ++i) {
    if (child.cwd[i] != '/' && child.cwd[i] != '\0') continue;
    ::memcpy(path, child.cwd, i);
    path[i] = '\0';
    if (::mkdir(path, 0755) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES) {
      fail(child, wire::StartStep::directory);
    }
  }
  if (::chdir(child.cwd) < 0) fail(child, wire::StartStep::directory);
}

void restore_signals() {
  struct sigaction defaults {};
  defaults.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &defaults, nullptr);  // the only one the guest ignores
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void execute(Child& child) {
  int error = ENOENT;
  for (char* const* program = child.programs; *program != nullptr; ++program) {
    ::execve(*program, child.argv, child.env);
    // As a shell does: the first candidate that exists but cannot be run decides the message.
    if (errno != ENOENT && errno != ENOTDIR && error == ENOENT) error = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
  }
  errno = error;
  fail(child, wire::StartStep::execute);
}

int run_child(void* pointer) {
  Child& child = *static_cast<Child*>(pointer);
  for (std::size_t i = 0; i < child.cgroup_count; ++i) {
    if (::write(child.cgroups[i], "0", 1) < 0) fail(child, wire::StartStep::cgroup);
  }
  ::setsid();
  if (child.check != nullptr) {
    take_identity(child);
    child.check(child.argument);
    ::_exit(0);
  }
  take_descriptors(child);
  take_identity(child);
  ::umask(022);
  enter_directory(child);
  restore_signals();
  execute(child);
  return 0;
}

alignas(64) char child_stack[64u * 1024];

StartOutcome failed(wire::StartStep step, int error_number) {
  StartOutcome outcome;
  outcome.step_failed = true;
  outcome.step = step;
  outcome.error_number = error_number;
  return outcome;
}

StartOutcome start(Child& child) {
  const pid_t pid =
      start_sharing_memory(run_child, &child, child_stack + sizeof child_stack, nullptr);
  if (pid < 0) return failed(wire::StartStep::fork, errno);
  if (child.failed) {
    ::waitpid(pid, nullptr, 0);
    return failed(child.step, child.error_number);
  }
  StartOutcome outcome;
  outcome.pid = pid;
  return outcome;
}

struct Terminal {
  UniqueFd master;
  UniqueFd slave;
};

// A terminal of the box that belongs to the payload's user: who opens the master owns the slave.
// Descriptors that are not valid, with errno, when there is none to be had.
Terminal open_terminal(const wire::TerminalSize& size, std::uint32_t uid) {
  Terminal terminal;
  ::setfsuid(uid);
  terminal.master = UniqueFd(::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
  const int error_number = errno;
  ::setfsuid(::geteuid());
  errno = error_number;
  if (!terminal.master) return terminal;
  winsize window{};
  window.ws_row = size.rows;
  window.ws_col = size.columns;
  int locked = 0;
  if (::ioctl(terminal.master.get(), TIOCSPTLCK, &locked) == 0 &&
      ::ioctl(terminal.master.get(), TIOCSWINSZ, &window) == 0) {
    terminal.slave =
        UniqueFd(::ioctl(terminal.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  }
  return terminal;
}

std::vector<char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> candidates(const std::string& program,
                                    const std::vector<std::string>& env) {
  if (program.find('/') != std::string::npos) return {program};
  std::string_view path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& variable : env) {
    if (variable.starts_with("PATH=")) path = std::string_view(variable).substr(5);
  }
  std::vector<std::string> found;
  while (!path.empty()) {
    const std::size_t colon = path.find(':');
    const std::string_view directory = path.substr(0, colon);
    if (!directory.empty()) found.push_back(std::string(directory) + "/" + program);
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  return found;
}

}  // namespace

StartOutcome start_payload(const wire::Start& request, std::span<const UniqueFd> fds,
                           const PayloadRules& rules) {
  if (request.argv.empty() || request.argv[0].empty() || !request.cwd.starts_with("/")) {
    return failed(wire::StartStep::request, EINVAL);
  }
  Terminal terminal;
  if (request.terminal) {
    terminal = open_terminal(*request.terminal, request.uid);
    if (!terminal.slave) return failed(wire::StartStep::descriptors, errno);
  }
  const std::vector<std::string> programs = candidates(request.argv[0], request.env);
  const std::vector<char*> argv = c_strings(request.argv);
  const std::vector<char*> env = c_strings(request.env);
  const std::vector<char*> program_pointers = c_strings(programs);
  Child child{.cgroups = rules.cgroups.data(),
              .cgroup_count = rules.cgroups.size(),
              .fds = {},
              .fd_count = request.terminal ? 3 : static_cast<int>(fds.size()),
              .is_terminal = request.terminal.has_value(),
              .uid = request.uid,
              .gid = request.gid,
              .cwd = request.cwd.c_str(),
              .argv = argv.data(),
              .env = env.data(),
              .programs = program_pointers.data(),
              .check = nullptr,
              .argument = nullptr};
  for (std::size_t i = 0; i < static_cast<std::size_t>(child.fd_count); ++i) {
    child.fds[i] = child.is_terminal ? terminal.slave.get() : fds[i].get();
  }
  StartOutcome outcome = start(child);
  if (!outcome.step_failed) outcome.terminal = std::move(terminal.master);
  return outcome;
}

StartOutcome run_as_payload(std::uint32_t uid, std::uint32_t gid, const PayloadRules& rules,
                            void (*check)(void*), void* argument) {
  Child child{.cgroups = rules.cgroups.data(),
              .cgroup_count = rules.cgroups.size(),
              .fds = {},
              .fd_count = 0,
              .is_terminal = false,
              .uid = uid,
              .gid = gid,
              .cwd = "/",
              .argv = nullptr,
              .env = nullptr,
              .programs = nullptr,
              .check = check,
              .argument = argument};
  StartOutcome outcome = start(child);
  if (!outcome.step_failed) ::waitpid(outcome.pid, nullptr, 0);
  return outcome;
}

}  // namespace caisson::guest
