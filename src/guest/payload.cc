#include "guest/payload.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/child_process.h"
#include "guest/lockdown.h"
#include "guest/raw_call.h"

namespace caisson::guest {

namespace {

// How long a start is waited for. Most take a fraction of a millisecond; the others go on while the
// guest does.
constexpr long kMomentNs = 50'000'000;
constexpr std::size_t kStackBytes = 64u << 10;

// Everything the child needs, prepared beforehand: from here on it shares the guest's memory, errno
// included, and makes raw system calls only.
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

[[noreturn]] void fail(Child& child, wire::StartStep step, long result) {
  child.failed = true;
  child.step = step;
  child.error_number = static_cast<int>(-result);
  for (;;) raw_call(SYS_exit_group, 127);
}

// The result of a step, which ends the child when it is an error.
long checked(Child& child, wire::StartStep step, long result) {
  if (result < 0) fail(child, step, result);
  return result;
}

void take_descriptors(Child& child) {
  constexpr auto kStep = wire::StartStep::descriptors;
  const int count = child.fd_count;
  for (int i = 0; i < count; ++i) {
    int& fd = child.fds[i];
    if (fd >= count) continue;
    fd = static_cast<int>(checked(child, kStep, raw_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, count)));
  }
  for (int i = 0; i < count; ++i) checked(child, kStep, raw_call(SYS_dup3, child.fds[i], i, 0));
  if (child.is_terminal) checked(child, kStep, raw_call(SYS_ioctl, 0, TIOCSCTTY, 0));
  // Closing at exec rather than now keeps the guest's own descriptors, which the child shares only
  // by copy.
  checked(child, kStep, raw_call(SYS_close_range, count, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */));
}

void take_identity(Child& child) {
  constexpr auto kStep = wire::StartStep::identity;
  const long uid = child.uid;
  const long gid = child.gid;
  checked(child, kStep, raw_call(SYS_setresgid, gid, gid, gid));
  checked(child, kStep, raw_call(SYS_setresuid, uid, uid, uid));
  checked(child, kStep, drop_all_capabilities());
}

// Enters the directory, making it and its parents first when they are missing, as the payload's
// user.
void enter_directory(Child& child) {
  constexpr auto kStep = wire::StartStep::directory;
  const long entered = raw_call(SYS_chdir, child.cwd);
  if (entered == 0) return;
  if (entered != -ENOENT) fail(child, kStep, entered);
  char path[4096];
  const std::size_t length = ::strlen(child.cwd);
  if (length >= sizeof path) fail(child, kStep, -ENAMETOOLONG);
  for (std::size_t i = 1; i <= length; ++i) {
    if (child.cwd[i] != '/' && child.cwd[i] != '\0') continue;
    ::memcpy(path, child.cwd, i);
    path[i] = '\0';
    const long made = raw_call(SYS_mkdirat, AT_FDCWD, &path[0], 0755);
    if (made < 0 && made != -EEXIST && made != -EROFS && made != -EACCES) fail(child, kStep, made);
  }
  checked(child, kStep, raw_call(SYS_chdir, child.cwd));
}

// The guest handles no signal and ignores none, but it blocks some.
void unblock_signals() {
  constexpr std::uint64_t kNone = 0;
  raw_call(SYS_rt_sigprocmask, SIG_SETMASK, &kNone, 0, sizeof kNone);
}

void execute(Child& child) {
  long error = -ENOENT;
  for (char* const* program = child.programs; *program != nullptr; ++program) {
    const long result = raw_call(SYS_execve, *program, child.argv, child.env);
    // As a shell does: the first candidate that exists but cannot be run decides the message.
    const bool is_there = result != -ENOENT && result != -ENOTDIR;
    if (is_there && error == -ENOENT) error = result;
    if (is_there && result != -EACCES) break;
  }
  fail(child, wire::StartStep::execute, error);
}

int run_child(void* pointer) {
  Child& child = *static_cast<Child*>(pointer);
  for (std::size_t i = 0; i < child.cgroup_count; ++i) {
    checked(child, wire::StartStep::cgroup, raw_call(SYS_write, child.cgroups[i], "0", 1));
  }
  raw_call(SYS_setsid);
  if (child.check != nullptr) {
    take_identity(child);
    child.check(child.argument);
    ::_exit(0);
  }
  take_descriptors(child);
  take_identity(child);
  raw_call(SYS_umask, 022);
  enter_directory(child);
  unblock_signals();
  execute(child);
  return 0;
}

StartOutcome failed(wire::StartStep step, int error_number) {
  return {.step_failed = true, .step = step, .error_number = error_number};
}

StartOutcome outcome_of(const Child& child) {
  return child.failed ? failed(child.step, child.error_number) : StartOutcome{};
}

// One stack is enough as long as starts do not stand still.
class ChildStack {
 public:
  ChildStack() {
    if (std::exchange(first_taken_, true)) more_ = std::make_unique<char[]>(kStackBytes);
  }
  ~ChildStack() {
    if (!more_) first_taken_ = false;
  }
  ChildStack(const ChildStack&) = delete;
  ChildStack& operator=(const ChildStack&) = delete;

  // 16 is what the architectures ask for.
  char* top() const { return (more_ ? more_.get() : first_) + kStackBytes; }

 private:
  alignas(64) static inline char first_[kStackBytes];
  static inline bool first_taken_ = false;
  std::unique_ptr<char[]> more_;
};

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

struct PayloadStart::Shared {
  Shared(const wire::Start& request, const PayloadRules& rules)
      : cgroups(rules.cgroups),
        programs(candidates(request.argv[0], request.env)),
        argv(c_strings(request.argv)),
        env(c_strings(request.env)),
        program_pointers(c_strings(programs)),
        child{.cgroups = cgroups.data(),
              .cgroup_count = cgroups.size(),
              .fds = {},
              .fd_count = 0,
              .is_terminal = request.terminal.has_value(),
              .uid = request.uid,
              .gid = request.gid,
              .cwd = request.cwd.c_str(),
              .argv = argv.data(),
              .env = env.data(),
              .programs = program_pointers.data(),
              .check = nullptr,
              .argument = nullptr} {}

  std::vector<int> cgroups;
  std::vector<std::string> programs;
  std::vector<char*> argv;
  std::vector<char*> env;
  std::vector<char*> program_pointers;
  Child child;
  ChildStack stack;
  pid_t in_use = 1;  // the kernel writes 0 and wakes us when the child has let go of our memory
};

PayloadStart::PayloadStart(wire::Start request, std::span<const UniqueFd> fds,
                           const PayloadRules& rules)
    : request_(std::move(request)) {
  if (request_.argv.empty() || request_.argv[0].empty() || !request_.cwd.starts_with("/")) {
    outcome_ = failed(wire::StartStep::request, EINVAL);
    return;
  }
  Terminal terminal;
  if (request_.terminal) {
    terminal = open_terminal(*request_.terminal, request_.uid);
    if (!terminal.slave) {
      outcome_ = failed(wire::StartStep::descriptors, errno);
      return;
    }
  }
  shared_ = std::make_unique<Shared>(request_, rules);
  Child& child = shared_->child;
  child.fd_count = request_.terminal ? 3 : static_cast<int>(fds.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(child.fd_count); ++i) {
    child.fds[i] = child.is_terminal ? terminal.slave.get() : fds[i].get();
  }
  // Without CLONE_VFORK: the kernel would hold the guest until the child has executed its program,
  // and a payload that stops the child before would hold both.
  constexpr int kFlags = CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD;
  pid_ =
      ::clone(run_child, shared_->stack.top(), kFlags, &child, nullptr, nullptr, &shared_->in_use);
  if (pid_ < 0) {
    outcome_ = failed(wire::StartStep::fork, errno);
    shared_.reset();
    return;
  }
  terminal_ = std::move(terminal.master);
}

PayloadStart::~PayloadStart() {
  if (!decided()) static_cast<void>(shared_.release());  // it is not ours alone
}

bool PayloadStart::decided() const {
  return !shared_ || std::atomic_ref(shared_->in_use).load(std::memory_order_acquire) == 0;
}

bool PayloadStart::wait_a_moment() const {
  const timespec moment{.tv_sec = 0, .tv_nsec = kMomentNs};
  while (!decided()) {
    const long woken = raw_call(SYS_futex, &shared_->in_use, FUTEX_WAIT, 1, &moment);
    if (woken < 0 && woken != -EAGAIN && woken != -EINTR) break;
  }
  return decided();
}

StartOutcome PayloadStart::outcome() const {
  return shared_ ? outcome_of(shared_->child) : outcome_;
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
  const ChildStack stack;
  const pid_t pid = start_sharing_memory(run_child, &child, stack.top(), nullptr);
  if (pid < 0) return failed(wire::StartStep::fork, errno);
  ::waitpid(pid, nullptr, 0);
  return outcome_of(child);
}

}  // namespace caisson::guest
