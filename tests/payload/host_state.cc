// Row I14: what belongs to the whole host cannot be changed. Every probe passes an argument that
// the kernel rejects after its permission check, or that changes nothing.
#include <fcntl.h>
#include <sched.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "check.h"

namespace caisson::payload {
namespace {

constexpr char kNowhere[] = "/caisson-no-such-file";
constexpr int kLogBufferSize = 10;       // SYSLOG_ACTION_SIZE_BUFFER: asks, takes nothing
constexpr int kTooLongName = 4096;       // host names end at 64
constexpr int kRealTimeClass = 1 << 13;  // IOPRIO_PRIO_VALUE(IOPRIO_CLASS_RT, 0)
constexpr unsigned long kBadFlags = 0xff00;

// No time and no zone: permission is asked for, nothing is set.
Outcome set_time_of_day(Argument) {
  return judge(::syscall(SYS_settimeofday, nullptr, nullptr));
}

// 1970 lies before this boot: since Linux 4.3 a permitted caller gets EINVAL.
Outcome set_clock(Argument) {
  const timespec before_boot{0, 0};
  return judge(::syscall(SYS_clock_settime, CLOCK_REALTIME, &before_boot));
}

// A tick far out of range: a permitted caller gets EINVAL.
Outcome adjust_clock(Argument) {
  timex adjustment{};
  adjustment.modes = ADJ_TICK;
  adjustment.tick = 1;
  return judge(::syscall(SYS_adjtimex, &adjustment));
}

Outcome set_host_name(Argument) {
  return judge(::syscall(SYS_sethostname, "", kTooLongName));
}
Outcome set_domain_name(Argument) {
  return judge(::syscall(SYS_setdomainname, "", kTooLongName));
}

// Wrong magic numbers, and a command that does not exist.
Outcome reboot_nothing(Argument) {
  return judge(::syscall(SYS_reboot, 0, 0, 0xffffffffu, nullptr));
}

Outcome load_module(Argument) {
  return judge(::syscall(SYS_init_module, nullptr, 0, ""));
}
Outcome load_module_file(Argument) {
  return judge(::syscall(SYS_finit_module, -1, "", 0));
}
Outcome unload_module(Argument) {
  return judge(::syscall(SYS_delete_module, "caisson_no_such_module", O_NONBLOCK));
}

Outcome load_kernel(Argument) {
  return judge(::syscall(SYS_kexec_load, 0, 1000, nullptr, kBadFlags));
}

Outcome swap_on(Argument) {
  return judge(::syscall(SYS_swapon, kNowhere, 0));
}
Outcome swap_off(Argument) {
  return judge(::syscall(SYS_swapoff, kNowhere));
}
Outcome accounting(Argument) {
  return judge(::syscall(SYS_acct, kNowhere));
}
Outcome kernel_log(Argument) {
  return judge(::klogctl(kLogBufferSize, nullptr, 0));
}

Outcome negative_priority(Argument) {
  return judge(::setpriority(PRIO_PROCESS, 0, -5));
}
Outcome real_time_scheduling(Argument) {
  const sched_param lowest{.sched_priority = 1};
  return judge(::sched_setscheduler(0, SCHED_FIFO, &lowest));
}
Outcome real_time_io(Argument) {
  return judge(::syscall(SYS_ioprio_set, 1, 0, kRealTimeClass));
}

constexpr Check kChecks[] = {
    {"I14", "settimeofday", set_time_of_day},
    {"I14", "clock_settime", set_clock},
    {"I14", "adjtimex", adjust_clock},
    {"I14", "sethostname", set_host_name},
    {"I14", "setdomainname", set_domain_name},
    {"I14", "reboot", reboot_nothing},
    {"I14", "init_module", load_module},
    {"I14", "finit_module", load_module_file},
    {"I14", "delete_module", unload_module},
    {"I14", "kexec_load", load_kernel},
    {"I14", "swapon", swap_on},
    {"I14", "swapoff", swap_off},
    {"I14", "acct", accounting},
    {"I14", "syslog", kernel_log},
    {"I14", "setpriority_negative", negative_priority},
    {"I14", "sched_rt", real_time_scheduling},
    {"I14", "ioprio_rt", real_time_io},
};

}  // namespace

std::span<const Check> host_state_checks() {
  return kChecks;
}

}  // namespace caisson::payload
