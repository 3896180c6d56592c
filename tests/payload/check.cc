#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/unique_fd.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr unsigned kCheckSeconds = 60;

// The answer travels in shared memory: a pipe would be one of the descriptors that fd_leak looks
// for.
struct SharedOutcome {
  bool complete = false;
  Verdict verdict = Verdict::broken;
  char detail[256] = {};
};

bool is_mask(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

[[noreturn]] void answer_in_child(const Check& check, Argument argument, pid_t parent,
                                  SharedOutcome& shared) {
  end_with_parent(parent);
  ::alarm(kCheckSeconds);
  const Outcome outcome = check.probe(argument);
  shared.verdict = outcome.verdict;
  const std::size_t length = std::min(outcome.detail.size(), sizeof shared.detail - 1);
  std::memcpy(shared.detail, outcome.detail.data(), length);
  shared.complete = true;
  ::_exit(0);
}

// A seccomp kill refuses an attempt; it proves nothing where the point is a limit or ordinary work.
Outcome judge_death(const Check& check, int signal_number) {
  const char* name = ::sigabbrev_np(signal_number);
  const std::string text = std::string("SIG") + (name != nullptr ? name : "?");
  const bool attempt = !check.name.starts_with("ok_") && !check.name.starts_with("res_");
  return signal_number == SIGSYS && attempt ? denied(text) : broken(text);
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::denied:
      return "denied";
    case Verdict::allowed:
      return "allowed";
    case Verdict::ok:
      return "ok";
    case Verdict::broken:
      return "broken";
  }
  return "broken";
}

bool is_expected(Verdict verdict) {
  return verdict == Verdict::denied || verdict == Verdict::ok;
}

Outcome denied(std::string detail) {
  return {Verdict::denied, std::move(detail)};
}
Outcome allowed(std::string detail) {
  return {Verdict::allowed, std::move(detail)};
}
Outcome ok(std::string detail) {
  return {Verdict::ok, std::move(detail)};
}
Outcome broken(std::string detail) {
  return {Verdict::broken, std::move(detail)};
}

std::string errno_name(int error_number) {
  const char* name = ::strerrorname_np(error_number);
  return name != nullptr ? name : std::to_string(error_number);
}

Outcome judge(long result, std::initializer_list<int> also_denied) {
  const int error_number = errno;
  if (result >= 0) return allowed("succeeded");
  const std::string name = errno_name(error_number);
  if (error_number == EPERM || error_number == EACCES || error_number == ENOSYS)
    return denied(name);
  const bool refusal =
      std::find(also_denied.begin(), also_denied.end(), error_number) != also_denied.end();
  return refusal ? denied(name) : allowed("reached the kernel: " + name);
}

Outcome judge_readable(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return judge(-1, {ENOENT, ENOTDIR, ENXIO});
  char buffer[64];
  const ssize_t length = ::read(fd.get(), buffer, sizeof buffer);
  if (length < 0) return denied("read " + errno_name(errno));
  return length == 0 ? denied("empty") : allowed(path + " is readable");
}

Outcome judge_openable(const std::string& path, int flags) {
  const UniqueFd fd(::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return judge(-1, {ENOENT, ENOTDIR, EROFS, EISDIR});
  return is_mask(fd.get()) ? denied("masked") : allowed(path + " opens");
}

Outcome run_supervised(const Check& check, Argument argument) {
  void* memory = ::mmap(nullptr, sizeof(SharedOutcome), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return broken("mmap " + errno_name(errno));
  auto& shared = *new (memory) SharedOutcome;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return broken("fork " + errno_name(errno));
  if (child == 0) answer_in_child(check, argument, parent, shared);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return broken("waitpid " + errno_name(errno));
  }
  if (WIFSIGNALED(status)) return judge_death(check, WTERMSIG(status));
  if (!shared.complete) return broken("the probe ended without an answer");
  return {shared.verdict, shared.detail};
}

std::vector<Check> all_checks() {
  std::vector<Check> checks;
  for (const auto group :
       {privilege_checks(), mount_checks(), storage_checks(), device_checks(), kernel_file_checks(),
        process_one_checks(), leak_checks(), network_checks(), kernel_surface_checks(),
        host_state_checks(), limit_checks(), work_checks()}) {
    checks.insert(checks.end(), group.begin(), group.end());
  }
  return checks;
}

}  // namespace caisson::payload
