// Rows I1 and I2: no privilege, no new namespaces.
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"

namespace caisson::payload {
namespace {

// An id that is not ours.
unsigned foreign_id(unsigned own) {
  return own + 1;
}

Outcome cap_status(Argument) {
  std::string weak;
  bool no_new_privs = false;
  bool seccomp = false;
  for (const std::string& line : lines_of("/proc/self/status")) {
    const std::vector<std::string> words = words_of(line, '\t');
    if (words.size() < 2) continue;
    const bool is_set = words[1].find_first_not_of('0') != std::string::npos;
    if (words[0].starts_with("Cap") && is_set) weak += words[0] + words[1] + " ";
    if (words[0] == "NoNewPrivs:") no_new_privs = words[1] == "1";
    if (words[0] == "Seccomp:") seccomp = words[1] == "2";
  }
  if (!no_new_privs) weak += "NoNewPrivs:0 ";
  if (!seccomp) weak += "Seccomp is not a filter";
  return weak.empty() ? denied("no capability, NoNewPrivs=1, Seccomp=2") : allowed(weak);
}

// The id outside the user namespace; nullopt when `inside` is not mapped.
std::optional<unsigned long> outer_id(const std::string& map, unsigned long inside) {
  for (const std::string& line : lines_of(map)) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 3) continue;
    const unsigned long first = std::stoul(words[0]);
    const unsigned long count = std::stoul(words[2]);
    if (inside >= first && inside - first < count) return std::stoul(words[1]) + (inside - first);
  }
  return std::nullopt;
}

Outcome judge_outer_ids(const std::string& map, std::initializer_list<unsigned> ids) {
  std::string seen;
  for (const unsigned id : ids) {
    const std::optional<unsigned long> outer = outer_id(map, id);
    if (!outer) return broken(std::to_string(id) + " is not in " + map);
    if (*outer == 0) return allowed("host id 0");
    seen = "host id " + std::to_string(*outer);
  }
  return denied(seen);
}

Outcome host_root_uid(Argument) {
  uid_t real = 0, effective = 0, saved = 0;
  if (::getresuid(&real, &effective, &saved) < 0) return broken(errno_name(errno));
  return judge_outer_ids("/proc/self/uid_map", {real, effective, saved});
}

Outcome host_root_gid(Argument) {
  gid_t real = 0, effective = 0, saved = 0;
  if (::getresgid(&real, &effective, &saved) < 0) return broken(errno_name(errno));
  return judge_outer_ids("/proc/self/gid_map", {real, effective, saved});
}

// A group of the host that was not dropped shows as the overflow id, and still opens the host's
// files.
Outcome host_groups(Argument) {
  gid_t groups[256];
  const int count = ::getgroups(256, groups);
  if (count < 0) return broken(errno_name(errno));
  for (const gid_t group : std::span(groups, static_cast<std::size_t>(count))) {
    if (group != ::getgid()) return allowed("supplementary group " + std::to_string(group));
    if (outer_id("/proc/self/gid_map", group) == 0) return allowed("supplementary host group 0");
  }
  return denied(std::to_string(count) + " supplementary groups");
}

// An id that is 0 already says nothing by setuid(0): then another id is asked for.
Outcome setuid0(Argument) {
  return judge(::setuid(::getuid() == 0 ? foreign_id(0) : 0), {EINVAL});
}
Outcome setgid0(Argument) {
  return judge(::setgid(::getgid() == 0 ? foreign_id(0) : 0), {EINVAL});
}
Outcome setgroups_own(Argument) {
  const gid_t group = ::getgid();
  return judge(::setgroups(1, &group));
}

Outcome chown_foreign(Argument) {
  const TempDir directory;
  if (!directory.valid()) return broken("no temporary directory: " + errno_name(errno));
  return judge(::chown(directory.path().c_str(), foreign_id(::getuid()), foreign_id(::getgid())),
               {EINVAL});
}

template <int Flag>
Outcome unshare_one(Argument) {
  return judge(::unshare(Flag));
}

template <unsigned long Flag>
Outcome clone_one(Argument) {
  const long child = ::syscall(SYS_clone, Flag | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) ::_exit(0);
  const Outcome outcome = judge(child);
  if (child > 0) ::waitpid(static_cast<pid_t>(child), nullptr, 0);
  return outcome;
}

// Its flags lie in memory where no filter sees them, and libc falls back to clone only on ENOSYS.
Outcome clone3_newuser(Argument) {
  clone_args arguments{};
  arguments.flags = CLONE_NEWUSER;
  arguments.exit_signal = SIGCHLD;
  const long child = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) ::_exit(0);
  if (child > 0) {
    ::waitpid(static_cast<pid_t>(child), nullptr, 0);
    return allowed("a child in a new user namespace");
  }
  return errno == ENOSYS ? denied("ENOSYS") : broken(errno_name(errno) + " instead of ENOSYS");
}

Outcome setns_file(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return judge(-1, {ENOENT});
  return judge(::setns(fd.get(), 0));
}
Outcome setns_pid1(Argument) {
  return setns_file("/proc/1/ns/uts");
}
Outcome setns_self(Argument) {
  return setns_file("/proc/self/ns/uts");
}

// The argument holds the links of the other side: "uts:[4026531838],ipc:[4026531839]".
Outcome host_namespaces(Argument others) {
  if (others.empty())
    return broken("needs the namespaces to differ from, such as uts:[4026531838]");
  for (const std::string& other : words_of(others, ',')) {
    const std::string path = "/proc/self/ns/" + other.substr(0, other.find(':'));
    char link[64] = {};
    if (::readlink(path.c_str(), link, sizeof link - 1) < 0) return broken(path);
    if (other == link) return allowed("the same " + other);
  }
  return denied("namespaces of its own");
}

constexpr Check kChecks[] = {
    {"I01", "cap_status", cap_status},
    {"I01", "host_root_uid", host_root_uid},
    {"I01", "host_root_gid", host_root_gid},
    {"I01", "host_groups", host_groups},
    {"I01", "setuid0", setuid0},
    {"I01", "setgid0", setgid0},
    {"I01", "setgroups", setgroups_own},
    {"I01", "chown_foreign", chown_foreign},
    {"I02", "unshare_user", unshare_one<CLONE_NEWUSER>},
    {"I02", "unshare_mount", unshare_one<CLONE_NEWNS>},
    {"I02", "unshare_pid", unshare_one<CLONE_NEWPID>},
    {"I02", "unshare_net", unshare_one<CLONE_NEWNET>},
    {"I02", "unshare_ipc", unshare_one<CLONE_NEWIPC>},
    {"I02", "unshare_uts", unshare_one<CLONE_NEWUTS>},
    {"I02", "unshare_cgroup", unshare_one<CLONE_NEWCGROUP>},
    {"I02", "unshare_time", unshare_one<CLONE_NEWTIME>},
    {"I02", "clone_newuser", clone_one<CLONE_NEWUSER>},
    {"I02", "clone_newns", clone_one<CLONE_NEWNS>},
    {"I02", "clone3_newuser", clone3_newuser},
    {"I02", "setns_pid1", setns_pid1},
    {"I02", "setns_self", setns_self},
    {"I02 I17", "host_namespaces", host_namespaces},
};

}  // namespace

std::span<const Check> privilege_checks() {
  return kChecks;
}

}  // namespace caisson::payload
