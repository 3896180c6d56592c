// Row I9: process 1 of the box, and what runs the box, cannot be reached.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

// PTRACE_SEIZE does not stop the target, and ends with this process.
Outcome ptrace_pid1(Argument) {
  return judge(::ptrace(PTRACE_SEIZE, 1, nullptr, nullptr));
}

// Address 0 is mapped nowhere: a permitted caller gets EFAULT.
Outcome process_vm_readv_pid1(Argument) {
  char buffer[8];
  const iovec local{buffer, sizeof buffer};
  const iovec remote{nullptr, sizeof buffer};
  return judge(::process_vm_readv(1, &local, 1, &remote, 1, 0));
}

Outcome pidfd_getfd_pid1(Argument) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, 1, 0)));
  if (!pidfd) return judge(-1);
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), 0, 0)));
  return judge(fd.get());
}

Outcome proc1_mem(Argument) {
  return judge_openable("/proc/1/mem", O_RDONLY);
}
Outcome proc1_environ(Argument) {
  return judge_openable("/proc/1/environ", O_RDONLY);
}
Outcome proc1_maps(Argument) {
  return judge_readable("/proc/1/maps");
}

// ETXTBSY protects a program only while it runs, so it counts as reached.
Outcome proc1_exe_write(Argument) {
  return judge_openable("/proc/1/exe", O_WRONLY);
}

Outcome open_directory(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return judge(fd.get(), {ENOENT});
}
Outcome proc1_root(Argument) {
  return open_directory("/proc/1/root");
}
Outcome proc1_cwd(Argument) {
  return open_directory("/proc/1/cwd");
}
Outcome proc1_fd(Argument) {
  return open_directory("/proc/1/fd");
}

// Signal 0 asks for the permission and sends nothing.
Outcome kill_pid1(Argument) {
  return judge(::kill(1, 0));
}

Outcome self_exe_write(Argument) {
  const UniqueFd fd(::open("/proc/self/exe", O_WRONLY | O_CLOEXEC));
  if (fd || errno != ETXTBSY) return judge(fd.get(), {EROFS});
  struct statvfs status {};
  if (::statvfs("/proc/self/exe", &status) < 0) return broken(errno_name(errno));
  return (status.f_flag & ST_RDONLY) != 0 ? denied("read-only mount") : allowed("only ETXTBSY");
}

constexpr Check kChecks[] = {
    {"I09", "ptrace_pid1", ptrace_pid1},
    {"I09", "process_vm_readv_pid1", process_vm_readv_pid1},
    {"I09", "pidfd_getfd_pid1", pidfd_getfd_pid1},
    {"I09", "proc1_mem", proc1_mem},
    {"I09", "proc1_environ", proc1_environ},
    {"I09", "proc1_maps", proc1_maps},
    {"I09", "proc1_exe_write", proc1_exe_write},
    {"I09", "proc1_root", proc1_root},
    {"I09", "proc1_cwd", proc1_cwd},
    {"I09", "proc1_fd", proc1_fd},
    {"I09", "kill_pid1", kill_pid1},
    {"I09", "self_exe_write", self_exe_write},
};

}  // namespace

std::span<const Check> process_one_checks() {
  return kChecks;
}

}  // namespace caisson::payload
