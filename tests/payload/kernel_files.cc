// Rows I7 and I8: the kernel's files tell nothing and take nothing.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr std::size_t kFewPids = 10;

Outcome proc_kcore(Argument) {
  return judge_readable("/proc/kcore");
}
Outcome proc_keys(Argument) {
  return judge_readable("/proc/keys");
}
Outcome proc_timer_list(Argument) {
  return judge_readable("/proc/timer_list");
}
Outcome proc_kpagecount(Argument) {
  return judge_readable("/proc/kpagecount");
}
Outcome proc_kpageflags(Argument) {
  return judge_readable("/proc/kpageflags");
}
Outcome proc_kpagecgroup(Argument) {
  return judge_readable("/proc/kpagecgroup");
}

// Opened only: reading would take lines away from the host's log.
Outcome proc_kmsg(Argument) {
  return judge_openable("/proc/kmsg", O_RDONLY);
}

Outcome proc_kallsyms(Argument) {
  const std::string content = content_of("/proc/kallsyms");
  if (content.empty()) return denied("empty");
  const std::string address = content.substr(0, content.find(' '));
  const bool hidden = address.find_first_not_of('0') == std::string::npos;
  return hidden ? denied("addresses are hidden") : allowed("addresses are visible");
}

// Everything in /proc but the files that ordinary programs need, and processes. Links lead to what
// is the box's own.
Outcome proc_host_state(Argument) {
  constexpr std::string_view kNeeded[] = {"cgroups", "cpuinfo", "filesystems", "loadavg",
                                          "meminfo", "stat",    "sys",         "sysvipc",
                                          "tty",     "uptime",  "version",     "vmstat"};
  std::size_t seen = 0;
  for (const std::string& name : names_in("/proc")) {
    const std::string path = "/proc/" + name;
    struct stat info {};
    if (name.find_first_not_of("0123456789") == std::string::npos) continue;
    if (std::find(std::begin(kNeeded), std::end(kNeeded), name) != std::end(kNeeded)) continue;
    if (::lstat(path.c_str(), &info) < 0 || S_ISLNK(info.st_mode)) continue;
    ++seen;
    if (S_ISDIR(info.st_mode) && !names_in(path).empty()) return allowed(path + " can be listed");
    if (S_ISDIR(info.st_mode)) continue;
    const Outcome outcome = judge_readable(path);
    if (outcome.verdict != Verdict::denied) return outcome;
  }
  return denied("none of " + std::to_string(seen) + " tells anything");
}

// Files that everybody reads on a host, by name.
Outcome proc_boot_and_devices(Argument) {
  for (const char* path :
       {"/proc/cmdline", "/proc/interrupts", "/proc/locks", "/proc/softirqs", "/proc/diskstats",
        "/proc/partitions", "/proc/modules", "/proc/kallsyms", "/proc/iomem", "/proc/zoneinfo",
        "/proc/buddyinfo", "/proc/swaps", "/proc/devices", "/proc/config.gz",
        "/proc/bus/input/devices", "/proc/pressure/cpu", "/proc/fs/jbd2", "/proc/driver/rtc"}) {
    const Outcome outcome = judge_readable(path);
    if (outcome.verdict != Verdict::denied) return outcome;
  }
  return denied("all are masked");
}

// The first of the files that opens for writing. Nothing is written.
Outcome judge_writable(std::initializer_list<const char*> paths) {
  std::string refusal;
  for (const char* path : paths) {
    const Outcome outcome = judge_openable(path, O_WRONLY);
    if (outcome.verdict != Verdict::denied) return outcome;
    if (refusal.empty() || refusal == "ENOENT") refusal = outcome.detail;
  }
  return denied(refusal);
}

Outcome proc_core_pattern(Argument) {
  return judge_writable({"/proc/sys/kernel/core_pattern"});
}

Outcome proc_sysctl_write(Argument) {
  return judge_writable({"/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
                         "/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/shmmax",
                         "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/drop_caches",
                         "/proc/sys/fs/binfmt_misc/register", "/proc/sys/user/max_user_namespaces",
                         "/proc/sys/net/ipv4/ip_forward"});
}

Outcome proc_irq_write(Argument) {
  return judge_writable({"/proc/irq/default_smp_affinity", "/proc/bus/pci/00/00.0"});
}

Outcome proc_few_pids(Argument) {
  const std::vector<std::string> names = names_in("/proc");
  const auto count = static_cast<std::size_t>(
      std::count_if(names.begin(), names.end(), [](const std::string& name) {
        return name.find_first_not_of("0123456789") == std::string::npos;
      }));
  if (count == 0) return broken("/proc shows no process");
  const std::string text = std::to_string(count) + " processes";
  return count <= kFewPids ? denied(text) : allowed(text);
}

Outcome sysrq_trigger(Argument) {
  return judge_writable({"/proc/sysrq-trigger"});
}

Outcome sched_debug(Argument) {
  for (const char* path : {"/proc/sched_debug", "/sys/kernel/debug/sched/debug"}) {
    const Outcome outcome = judge_readable(path);
    if (outcome.verdict != Verdict::denied) return outcome;
  }
  return denied("absent or unreadable");
}

Outcome sys_write(Argument) {
  return judge_writable({"/sys/power/state", "/sys/kernel/uevent_helper", "/sys/kernel/profiling",
                         "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/module/kernel/uevent",
                         "/sys/kernel/rcu_normal", "/sys/fs/selinux/enforce",
                         "/sys/kernel/security/lockdown", "/sys/devices/system/cpu/cpu0/uevent"});
}

std::vector<std::string> cgroup_directories() {
  std::vector<std::string> directories = {"/sys/fs/cgroup"};
  for (const Mount& mount : mounts()) {
    if (mount.type == "cgroup" || mount.type == "cgroup2") directories.push_back(mount.path);
  }
  return directories;
}

Outcome cgroup_mkdir(Argument) {
  std::string refusal;
  for (const std::string& directory : cgroup_directories()) {
    const std::string path = directory + "/caisson-probe-" + std::to_string(::getpid());
    const int result = ::mkdir(path.c_str(), 0700);
    const Outcome outcome = judge(result, {EROFS, ENOENT});
    if (result == 0) ::rmdir(path.c_str());
    if (outcome.verdict != Verdict::denied) return allowed("a group in " + directory);
    refusal = outcome.detail;
  }
  return denied(refusal);
}

Outcome cgroup_files(Argument) {
  for (const std::string& directory : cgroup_directories()) {
    for (const char* name : {"cgroup.procs", "tasks", "release_agent", "notify_on_release",
                             "devices.allow", "memory.limit_in_bytes", "pids.max", "memory.max",
                             "cgroup.subtree_control", "cgroup.freeze"}) {
      const Outcome outcome = judge_openable(directory + "/" + name, O_WRONLY);
      if (outcome.verdict != Verdict::denied) return outcome;
    }
  }
  return denied("none opens for writing");
}

constexpr Check kChecks[] = {
    {"I07", "proc_kcore", proc_kcore},
    {"I07", "proc_keys", proc_keys},
    {"I07", "proc_timer_list", proc_timer_list},
    {"I07", "proc_kpagecount", proc_kpagecount},
    {"I07", "proc_kpageflags", proc_kpageflags},
    {"I07", "proc_kpagecgroup", proc_kpagecgroup},
    {"I07", "proc_kmsg", proc_kmsg},
    {"I07", "proc_kallsyms", proc_kallsyms},
    {"I07", "proc_host_state", proc_host_state},
    {"I07", "proc_boot_and_devices", proc_boot_and_devices},
    {"I07", "proc_core_pattern", proc_core_pattern},
    {"I07", "proc_sysctl_write", proc_sysctl_write},
    {"I07", "proc_irq_write", proc_irq_write},
    {"I07 I17", "proc_few_pids", proc_few_pids},
    {"I07", "sysrq_trigger", sysrq_trigger},
    {"I07", "sched_debug", sched_debug},
    {"I08", "sys_write", sys_write},
    {"I08", "cgroup_mkdir", cgroup_mkdir},
    {"I08", "cgroup_files", cgroup_files},
};

}  // namespace

std::span<const Check> kernel_file_checks() {
  return kChecks;
}

}  // namespace caisson::payload
