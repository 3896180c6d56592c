// Row I10: nothing of whoever started the box leaks in.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

// The argument is a piece of text that the starter has in its own environment.
Outcome self_environ(Argument canary) {
  if (canary.empty()) return broken("needs a text that the environment must not contain");
  std::size_t count = 0;
  for (char** entry = environ; *entry != nullptr; ++entry, ++count) {
    if (std::string_view(*entry).find(canary) != std::string_view::npos) {
      return allowed(std::string("the starter's environment: ") + *entry);
    }
  }
  return denied(std::to_string(count) + " variables, none of the starter's");
}

Outcome pid1_environ(Argument) {
  return judge_readable("/proc/1/environ");
}

Outcome fd_leak(Argument) {
  std::string extra;
  for (const int fd : open_descriptors()) {
    if (fd > STDERR_FILENO) extra += std::to_string(fd) + " ";
  }
  return extra.empty() ? denied("0, 1, 2") : allowed("descriptors " + extra);
}

// An unreadable character: a permitted caller gets EFAULT and pushes nothing. The second form has
// bits that the kernel ignores and a careless filter does not.
Outcome push_into(int terminal) {
  const auto* const unreadable = reinterpret_cast<const char*>(1);
  for (const unsigned long request :
       {static_cast<unsigned long>(TIOCSTI), 0x100000000UL | TIOCSTI}) {
    const Outcome outcome =
        judge(::syscall(SYS_ioctl, terminal, request, unreadable), {ENOTTY, EIO});
    if (outcome.verdict != Verdict::denied) return outcome;
  }
  return denied("terminal input");
}

// On what came with the process, then on a terminal of its own: only the filter stops that one.
Outcome tiocsti(Argument) {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const Outcome outcome = push_into(fd);
    if (outcome.verdict != Verdict::denied) return outcome;
  }
  const UniqueFd host_terminal(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (host_terminal) return push_into(host_terminal.get());
  const UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!master || ::grantpt(master.get()) < 0 || ::unlockpt(master.get()) < 0) {
    return denied("no terminal");
  }
  if (::setsid() < 0) return broken("setsid " + errno_name(errno));
  ::signal(SIGHUP, SIG_IGN);  // sent when the terminal goes, at the end of this function
  const UniqueFd own(::open(::ptsname(master.get()), O_RDWR | O_CLOEXEC));
  return own ? push_into(own.get()) : denied("no terminal");
}

Outcome controlling_tty(Argument) {
  const UniqueFd fd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  return judge(fd.get(), {ENXIO, ENOENT});
}

constexpr Check kChecks[] = {
    {"I10", "self_environ", self_environ},
    {"I10", "pid1_environ", pid1_environ},
    {"I10", "fd_leak", fd_leak},
    {"I10", "tiocsti", tiocsti},
    {"I10", "controlling_tty", controlling_tty},
};

}  // namespace

std::span<const Check> leak_checks() {
  return kChecks;
}

}  // namespace caisson::payload
