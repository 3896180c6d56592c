#include "backend/native/seccomp.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <set>
#include <stdexcept>

namespace caisson::backend::native {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kNativeArch = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kForeignArchs[] = {AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0};
#else
constexpr std::uint32_t kNativeArch = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kForeignArchs[] = {AUDIT_ARCH_ARM, AUDIT_ARCH_X86_64, 0};
#endif

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr std::uint32_t refused(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

// What the kernel's interpreter of classic BPF does, for the instructions seccomp(2) allows and the
// filter uses. Anything else, and every step outside the program, throws.
std::uint32_t run(const std::vector<sock_filter>& program, const seccomp_data& data) {
  std::uint32_t accumulator = 0;
  std::size_t at = 0;
  for (;;) {
    const sock_filter& step = program.at(at++);
    switch (step.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (step.k % 4 != 0 || step.k + 4 > sizeof data) throw std::out_of_range("load");
        std::memcpy(&accumulator, reinterpret_cast<const char*>(&data) + step.k, 4);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= step.k;
        break;
      case BPF_JMP | BPF_JA:
        at += step.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += accumulator == step.k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += accumulator >= step.k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        at += (accumulator & step.k) != 0 ? step.jt : step.jf;
        break;
      case BPF_RET | BPF_K:
        return step.k;
      default:
        throw std::invalid_argument("instruction");
    }
  }
}

using Arguments = std::array<std::uint64_t, 6>;
using Values = std::initializer_list<std::uint64_t>;

const std::vector<sock_filter>& filter() {
  static const std::vector<sock_filter> program = build_filter();
  return program;
}

std::uint32_t verdict(int number, const Arguments& arguments, std::uint32_t arch = kNativeArch) {
  seccomp_data data{.nr = number, .arch = arch, .instruction_pointer = 0x7f00'0000'1000};
  std::copy(arguments.begin(), arguments.end(), data.args);
  return run(filter(), data);
}

// The number of a call on this architecture; nullopt when it has none.
std::optional<int> number_of(std::string_view name) {
  const int number = seccomp_syscall_resolve_name(std::string(name).c_str());
  if (number < 0) return std::nullopt;
  return number;
}

// The verdict about a call by name. A name without a number here counts as `absent`.
std::uint32_t call(std::string_view name, const Arguments& arguments,
                   std::uint32_t absent = refused(ENOSYS)) {
  const std::optional<int> number = number_of(name);
  return number ? verdict(*number, arguments) : absent;
}

constexpr Arguments kZeros{};
constexpr Arguments kOnes{~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};

// Calls whose arguments are looked at, or that are answered in a way of their own.
const std::set<std::string_view> kSpecial = {
    "clone",   "clone3", "openat2", "socket",    "setsockopt", "socketpair",
    "seccomp", "prctl",  "fcntl",   "setrlimit", "prlimit64",  "personality",
    "ioctl",   "chmod",  "fchmod",  "fchmodat",  "fchmodat2",  "creat",
    "open",    "openat", "mknod",   "mknodat"};

TEST(Seccomp, AllowsEveryListedCallWhateverItsArguments) {
  std::size_t checked = 0;
  for (const std::string_view name : allowed_calls()) {
    const std::optional<int> number = number_of(name);
    if (!number) continue;
    ++checked;
    EXPECT_EQ(verdict(*number, kZeros), kAllow) << name;
    EXPECT_EQ(verdict(*number, kOnes), kAllow) << name;
  }
  EXPECT_GT(checked, 200u);
}

TEST(Seccomp, DeniesEveryListedCallWhateverItsArguments) {
  std::size_t checked = 0;
  for (const std::string_view name : denied_calls()) {
    const std::optional<int> number = number_of(name);
    if (!number) continue;
    ++checked;
    EXPECT_EQ(verdict(*number, kZeros), refused(EPERM)) << name;
    EXPECT_EQ(verdict(*number, kOnes), refused(EPERM)) << name;
  }
  EXPECT_GT(checked, 40u);
}

TEST(Seccomp, ListsNoCallTwice) {
  std::set<std::string_view> seen(kSpecial);
  for (const std::string_view name : allowed_calls()) {
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
  for (const std::string_view name : denied_calls()) {
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
}

TEST(Seccomp, KnowsNoCallThatIsNotListed) {
  std::set<int> listed;
  for (const auto* names : {&allowed_calls(), &denied_calls()}) {
    for (const std::string_view name : *names) listed.insert(number_of(name).value_or(-1));
  }
  for (const std::string_view name : kSpecial) listed.insert(number_of(name).value_or(-1));
  for (int number = 0; number < 2000; ++number) {
    if (listed.contains(number)) continue;
    EXPECT_EQ(verdict(number, kZeros), refused(ENOSYS)) << number;
    EXPECT_EQ(verdict(number, kOnes), refused(ENOSYS)) << number;
  }
  for (const int number : {4096, 65535, 0x3fffffff}) {
    EXPECT_EQ(verdict(number, kZeros), refused(ENOSYS)) << number;
  }
}

TEST(Seccomp, KillsAForeignArchitecture) {
  for (const std::uint32_t arch : kForeignArchs) {
    for (const int number : {0, 1, 11, 60, 59, 231, 500}) {
      EXPECT_EQ(verdict(number, kZeros, arch), kKill) << arch << " call " << number;
    }
  }
}

#if defined(__x86_64__)
TEST(Seccomp, KillsTheX32Abi) {
  constexpr int kX32 = 0x40000000;
  for (int number = 0; number < 600; ++number) {
    EXPECT_EQ(verdict(kX32 + number, kZeros), kKill) << number;
  }
  EXPECT_EQ(verdict(-1, kZeros), kKill);
  EXPECT_EQ(verdict(static_cast<int>(0x80000000u), kZeros), kKill);
}
#endif

TEST(Seccomp, LetsThreadsAndProcessesBeMadeButNoNamespaces) {
  constexpr std::uint64_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                                    CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                                    CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  EXPECT_EQ(call("clone", {SIGCHLD}), kAllow);
  EXPECT_EQ(call("clone", {kThread}), kAllow);
  EXPECT_EQ(call("clone", {CLONE_VM | CLONE_VFORK | SIGCHLD}), kAllow);
  EXPECT_EQ(call("clone", {SIGCHLD, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull}), kAllow);
  for (const std::uint64_t flag : Values{CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                         CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET}) {
    EXPECT_EQ(call("clone", {flag | SIGCHLD}), refused(EPERM)) << flag;
    EXPECT_EQ(call("clone", {flag | kThread}), refused(EPERM)) << flag;
    EXPECT_EQ(call("unshare", {flag}), refused(EPERM)) << flag;
  }
}

TEST(Seccomp, HidesCallsWhoseArgumentsAreInMemory) {
  EXPECT_EQ(call("clone3", kZeros), refused(ENOSYS));
  EXPECT_EQ(call("openat2", kZeros), refused(ENOSYS));
  EXPECT_EQ(call("io_uring_setup", kZeros), refused(EPERM));
}

TEST(Seccomp, LetsUnixInternetAndRoutingSocketsBeMade) {
  EXPECT_EQ(call("socket", {AF_UNIX, SOCK_STREAM, 0}), kAllow);
  EXPECT_EQ(call("socket", {AF_INET, SOCK_STREAM, 0}), kAllow);
  EXPECT_EQ(call("socket", {AF_INET6, SOCK_DGRAM, 0}), kAllow);
  EXPECT_EQ(call("socket", {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}), kAllow);
  EXPECT_EQ(call("socketpair", {AF_UNIX, SOCK_STREAM, 0}), kAllow);
}

TEST(Seccomp, RefusesEveryOtherFamilyOfSockets) {
  for (std::uint64_t family = 0; family < 64; ++family) {
    if (family == AF_UNIX || family == AF_INET || family == AF_INET6) continue;
    if (family == AF_NETLINK) continue;
    EXPECT_EQ(call("socket", {family, SOCK_RAW, 0}), refused(EAFNOSUPPORT)) << family;
  }
  for (std::uint64_t protocol = 0; protocol < 32; ++protocol) {
    if (protocol == NETLINK_ROUTE) continue;
    EXPECT_EQ(call("socket", {AF_NETLINK, SOCK_RAW, protocol}), refused(EAFNOSUPPORT)) << protocol;
  }
  for (const std::uint64_t family : Values{AF_INET, AF_NETLINK, AF_TIPC, AF_VSOCK}) {
    EXPECT_EQ(call("socketpair", {family, SOCK_STREAM, 0}), refused(EAFNOSUPPORT)) << family;
  }
}

TEST(Seccomp, RefusesProtocolsThatLoadModulesIntoTheKernel) {
  for (const std::uint64_t family : Values{AF_INET, AF_INET6}) {
    for (const std::uint64_t protocol :
         Values{0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6}) {
      for (const std::uint64_t flags : Values{0, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC}) {
        EXPECT_EQ(call("socket", {family, SOCK_STREAM | flags, protocol}), kAllow) << protocol;
        EXPECT_EQ(call("socket", {family, SOCK_DGRAM | flags, protocol}), kAllow) << protocol;
        EXPECT_EQ(call("socket", {family, SOCK_RAW | flags, protocol}), kAllow) << protocol;
      }
    }
    constexpr std::uint64_t kSmc = 256;
    for (const std::uint64_t protocol :
         Values{IPPROTO_DCCP, 115 /* L2TP */, IPPROTO_SCTP, IPPROTO_UDPLITE, IPPROTO_MPTCP, kSmc}) {
      for (const std::uint64_t type : Values{SOCK_STREAM, SOCK_DGRAM, SOCK_RAW}) {
        EXPECT_EQ(call("socket", {family, type, protocol}), refused(EPROTONOSUPPORT)) << protocol;
      }
    }
    for (const std::uint64_t type : Values{0, SOCK_RDM, SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET}) {
      EXPECT_EQ(call("socket", {family, type | SOCK_CLOEXEC, 0}), refused(ESOCKTNOSUPPORT)) << type;
    }
  }
  EXPECT_EQ(call("socket", {AF_UNIX, SOCK_SEQPACKET, 0}), kAllow);
}

TEST(Seccomp, RefusesFiltersThatUseUpTheHostsMemoryForCompiledPrograms) {
  for (const std::uint64_t option : Values{26, 50, 51, 52}) {
    EXPECT_EQ(call("setsockopt", {3, SOL_SOCKET, option}), refused(EPERM)) << option;
    EXPECT_EQ(call("setsockopt", {3, IPPROTO_TCP, option}), kAllow) << option;
  }
  for (const std::uint64_t option : Values{SO_REUSEADDR, SO_KEEPALIVE, SO_REUSEPORT, SO_RCVBUF,
                                           SO_DETACH_FILTER, SO_PASSCRED, SO_RCVTIMEO}) {
    EXPECT_EQ(call("setsockopt", {3, SOL_SOCKET, option}), kAllow) << option;
  }
  EXPECT_EQ(call("seccomp", {SECCOMP_SET_MODE_FILTER}), refused(ENOSYS));
  EXPECT_EQ(call("seccomp", {SECCOMP_SET_MODE_STRICT}), kAllow);
  EXPECT_EQ(call("prctl", {PR_SET_SECCOMP, SECCOMP_MODE_FILTER}), refused(EINVAL));
  EXPECT_EQ(call("prctl", {PR_SET_SECCOMP, SECCOMP_MODE_STRICT}), kAllow);
  EXPECT_EQ(call("prctl", {PR_GET_SECCOMP}), kAllow);
  EXPECT_EQ(call("prctl", {PR_SET_NAME, 2}), kAllow);
}

TEST(Seccomp, RefusesLeasesAndWatchesByDescriptor) {
  for (const std::uint64_t command : Values{F_SETLEASE, F_NOTIFY, 1040 /* F_SETDELEG */}) {
    EXPECT_EQ(call("fcntl", {3, command}), refused(EINVAL)) << command;
  }
  for (const std::uint64_t command :
       Values{F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW,
              F_DUPFD_CLOEXEC, F_GETLEASE, F_SETPIPE_SZ, F_ADD_SEALS}) {
    EXPECT_EQ(call("fcntl", {3, command}), kAllow) << command;
  }
}

// A limit of 1 keeps a crash from a piped core_pattern, 0 does not.
TEST(Seccomp, PretendsThatTheLimitOfCoreFilesIsSet) {
  constexpr std::uint64_t kSomewhere = 0x7f00'0000'0000;
  EXPECT_EQ(call("setrlimit", {RLIMIT_CORE, kSomewhere}, refused(0)), refused(0));
  EXPECT_EQ(call("setrlimit", {RLIMIT_NOFILE, kSomewhere}, kAllow), kAllow);
  EXPECT_EQ(call("prlimit64", {0, RLIMIT_CORE, kSomewhere}), refused(0));
  EXPECT_EQ(call("prlimit64", {0, RLIMIT_CORE, 0x1000}), refused(0));
  EXPECT_EQ(call("prlimit64", {0, RLIMIT_CORE, 0, kSomewhere}), kAllow);
  EXPECT_EQ(call("prlimit64", {0, RLIMIT_NOFILE, kSomewhere}), kAllow);
}

TEST(Seccomp, HidesCallsThatUseUpACountOfTheWholeHost) {
  for (const char* name : {"io_setup", "io_submit", "io_getevents", "io_destroy"}) {
    EXPECT_EQ(call(name, kZeros), refused(ENOSYS)) << name;
  }
}

// The kernel takes the low half of these arguments, so the high half must not change the verdict.
TEST(Seccomp, LooksAtTheHalfOfAnArgumentTheKernelLooksAt) {
  constexpr std::uint64_t kHigh = 0xdeadbeef'00000000;
  EXPECT_EQ(call("socket", {kHigh | AF_UNIX, SOCK_STREAM, 0}), kAllow);
  EXPECT_EQ(call("socket", {kHigh | AF_PACKET, SOCK_RAW, 0}), refused(EAFNOSUPPORT));
  EXPECT_EQ(call("ioctl", {0, kHigh | TIOCSTI}), refused(EPERM));
  EXPECT_EQ(call("clone", {kHigh | CLONE_NEWUSER}), refused(EPERM));
  EXPECT_EQ(call("fcntl", {3, kHigh | F_SETLEASE}), refused(EINVAL));
  EXPECT_EQ(call("socket", {AF_INET, SOCK_DGRAM, kHigh | IPPROTO_UDPLITE}),
            refused(EPROTONOSUPPORT));
  EXPECT_EQ(call("setsockopt", {3, kHigh | SOL_SOCKET, kHigh | SO_ATTACH_FILTER}), refused(EPERM));
  EXPECT_EQ(call("fchmod", {3, kHigh | 04755}), refused(EPERM));
}

TEST(Seccomp, LetsOnlyTheOrdinaryPersonalityBeAskedFor) {
  EXPECT_EQ(call("personality", {PER_LINUX}), kAllow);
  EXPECT_EQ(call("personality", {0xffffffff}), kAllow);
  for (const std::uint64_t persona :
       Values{ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, PER_LINUX32, 0xfffffffe}) {
    EXPECT_EQ(call("personality", {persona}), refused(EPERM)) << persona;
  }
}

TEST(Seccomp, RefusesToTypeIntoATerminal) {
  EXPECT_EQ(call("ioctl", {0, TIOCSTI}), refused(EPERM));
  EXPECT_EQ(call("ioctl", {0, TIOCLINUX}), refused(EPERM));
  EXPECT_EQ(call("ioctl", {0, TIOCGWINSZ}), kAllow);
  EXPECT_EQ(call("ioctl", {0, TIOCSCTTY}), kAllow);
  EXPECT_EQ(call("ioctl", {0, FIONREAD}), kAllow);
}

TEST(Seccomp, RefusesLocksThatBelongToNoProcess) {
  EXPECT_EQ(call("fcntl", {3, F_OFD_SETLK}), refused(EINVAL));
  EXPECT_EQ(call("fcntl", {3, F_OFD_SETLKW}), refused(EINVAL));
  for (const std::uint64_t command : Values{F_SETLK, F_SETLKW, F_GETLK, F_DUPFD_CLOEXEC, F_SETFL}) {
    EXPECT_EQ(call("fcntl", {3, command}), kAllow) << command;
  }
}

TEST(Seccomp, RefusesToMakeASubvolumeThatNoQuotaCounts) {
  EXPECT_EQ(call("ioctl", {3, BTRFS_IOC_SUBVOL_CREATE}), refused(EPERM));
  EXPECT_EQ(call("ioctl", {3, BTRFS_IOC_SUBVOL_CREATE_V2}), refused(EPERM));
  EXPECT_EQ(call("ioctl", {3, BTRFS_IOC_SNAP_CREATE}), refused(EPERM));
  EXPECT_EQ(call("ioctl", {3, BTRFS_IOC_SNAP_CREATE_V2}), refused(EPERM));
  EXPECT_EQ(call("ioctl", {3, FICLONE}), kAllow);
}

// Each call that sets a mode, with the place of the mode among its arguments.
TEST(Seccomp, RefusesSetIdBitsWhereverAModeIsSet) {
  const std::pair<const char*, std::size_t> calls[] = {
      {"chmod", 1}, {"fchmod", 1}, {"fchmodat", 2}, {"fchmodat2", 2}, {"creat", 1}};
  for (const auto& [name, place] : calls) {
    const auto with_mode = [&, at = place](std::uint64_t mode) {
      Arguments arguments{};
      arguments[at] = mode;
      return arguments;
    };
    for (const std::uint64_t mode : Values{04755, 02755, 06711, 04000, 07777}) {
      EXPECT_EQ(call(name, with_mode(mode), refused(EPERM)), refused(EPERM)) << name << mode;
    }
    for (const std::uint64_t mode : Values{0, 0755, 01777, 0644, 0100644}) {
      EXPECT_EQ(call(name, with_mode(mode), kAllow), kAllow) << name << mode;
    }
    // The bits of other arguments mean something else.
    Arguments others = kOnes;
    others[place] = 0644;
    EXPECT_EQ(call(name, others, kAllow), kAllow) << name;
  }
}

TEST(Seccomp, JudgesTheModeOfOpenOnlyWhenAFileMayBeMade) {
  constexpr std::uint64_t kGarbage = 0x7fff'ffff'ffff'ffff;
  EXPECT_EQ(call("openat", {3, 0, O_RDONLY, kGarbage}), kAllow);
  EXPECT_EQ(call("openat", {3, 0, O_RDWR | O_DIRECTORY | O_CLOEXEC, kGarbage}), kAllow);
  EXPECT_EQ(call("open", {0, O_RDONLY, kGarbage}, kAllow), kAllow);
  EXPECT_EQ(call("open", {0, O_WRONLY | O_TRUNC, 06777}, kAllow), kAllow);

  EXPECT_EQ(call("openat", {3, 0, O_CREAT | O_WRONLY, 0644}), kAllow);
  EXPECT_EQ(call("openat", {3, 0, O_TMPFILE | O_RDWR, 0600}), kAllow);
  EXPECT_EQ(call("open", {0, O_CREAT | O_EXCL, 01666}, kAllow), kAllow);

  for (const std::uint64_t mode : Values{04755, 02755, 06000}) {
    EXPECT_EQ(call("openat", {3, 0, O_CREAT | O_WRONLY, mode}), refused(EPERM)) << mode;
    EXPECT_EQ(call("openat", {3, 0, O_TMPFILE | O_RDWR, mode}), refused(EPERM)) << mode;
    EXPECT_EQ(call("open", {0, O_CREAT, mode}, refused(EPERM)), refused(EPERM)) << mode;
    EXPECT_EQ(call("open", {0, O_TMPFILE, mode}, refused(EPERM)), refused(EPERM)) << mode;
  }
}

TEST(Seccomp, LetsFifosSocketsAndFilesBeMadeButNoDevices) {
  for (const std::uint64_t kind : Values{0, S_IFREG, S_IFIFO, S_IFSOCK}) {
    EXPECT_EQ(call("mknodat", {3, 0, kind | 0644, 0}), kAllow) << kind;
    EXPECT_EQ(call("mknodat", {3, 0, kind | 04755, 0}), refused(EPERM)) << kind;
    EXPECT_EQ(call("mknod", {0, kind | 0644, 0}, kAllow), kAllow) << kind;
    EXPECT_EQ(call("mknod", {0, kind | 02755, 0}, refused(EPERM)), refused(EPERM)) << kind;
  }
  for (const std::uint64_t kind : Values{S_IFCHR, S_IFBLK, S_IFDIR, S_IFLNK}) {
    EXPECT_EQ(call("mknodat", {3, 0, kind | 0666, 0x103}), refused(EPERM)) << kind;
    EXPECT_EQ(call("mknod", {0, kind | 0666, 0x103}, refused(EPERM)), refused(EPERM)) << kind;
  }
}

// What keeps a box a box, by name, so that a change of the lists cannot lose one unnoticed.
TEST(Seccomp, KeepsTheCallsOutThatBoxesHaveBeenLeftThrough) {
  for (const char* name : {"mount",
                           "umount2",
                           "pivot_root",
                           "chroot",
                           "setns",
                           "unshare",
                           "open_tree",
                           "move_mount",
                           "fsopen",
                           "mount_setattr",
                           "bpf",
                           "perf_event_open",
                           "userfaultfd",
                           "keyctl",
                           "add_key",
                           "io_uring_setup",
                           "io_uring_enter",
                           "open_by_handle_at",
                           "init_module",
                           "finit_module",
                           "kexec_load",
                           "reboot",
                           "swapon",
                           "syslog",
                           "settimeofday",
                           "sethostname",
                           "acct",
                           "pidfd_getfd",
                           "quotactl",
                           "fanotify_init"}) {
    EXPECT_EQ(call(name, kZeros), refused(EPERM)) << name;
  }
}

TEST(Seccomp, HasJumpsThatStayInsideAndOnlyKnownInstructions) {
  const std::vector<sock_filter>& program = filter();
  const std::size_t size = program.size();
  for (std::size_t at = 0; at < size; ++at) {
    const sock_filter& step = program[at];
    switch (BPF_CLASS(step.code)) {
      case BPF_JMP:
        if (BPF_OP(step.code) == BPF_JA) {
          EXPECT_LT(at + 1 + step.k, size) << at;
        } else {
          EXPECT_LT(at + 1 + step.jt, size) << at;
          EXPECT_LT(at + 1 + step.jf, size) << at;
        }
        break;
      case BPF_LD:
        EXPECT_EQ(step.code, BPF_LD | BPF_W | BPF_ABS) << at;
        EXPECT_LE(step.k + 4, sizeof(seccomp_data)) << at;
        break;
      case BPF_ALU:
        EXPECT_EQ(step.code, BPF_ALU | BPF_AND | BPF_K) << at;
        break;
      default:
        EXPECT_EQ(step.code, BPF_RET | BPF_K) << at;
    }
  }
  EXPECT_EQ(BPF_CLASS(program.back().code), BPF_RET);
}

TEST(Seccomp, HasNoInstructionThatIsNeverReached) {
  const std::vector<sock_filter>& program = filter();
  std::vector<bool> reached(program.size() + 1);
  reached[0] = true;
  for (std::size_t at = 0; at < program.size(); ++at) {
    if (!reached[at]) continue;
    const sock_filter& step = program[at];
    if (BPF_CLASS(step.code) == BPF_RET) continue;
    if (BPF_CLASS(step.code) != BPF_JMP) {
      reached[at + 1] = true;
    } else if (BPF_OP(step.code) == BPF_JA) {
      reached.at(at + 1 + step.k) = true;
    } else {
      reached.at(at + 1 + step.jt) = true;
      reached.at(at + 1 + step.jf) = true;
    }
  }
  for (std::size_t at = 0; at < program.size(); ++at) EXPECT_TRUE(reached[at]) << at;
}

// A box costs microseconds for each instruction that is checked when the filter is installed, and
// a call for each that is executed.
TEST(Seccomp, IsShortAndDecidesInAFewSteps) {
  EXPECT_LT(filter().size(), 400u);
  EXPECT_GT(filter().size(), 100u);
  std::size_t deepest = 0;
  std::vector<std::size_t> depth(filter().size());
  for (std::size_t at = 0; at < filter().size(); ++at) {
    const sock_filter& step = filter()[at];
    const std::size_t next = depth[at] + 1;
    deepest = std::max(deepest, next);
    const auto lead = [&](std::size_t to) { depth[to] = std::max(depth[to], next); };
    if (BPF_CLASS(step.code) == BPF_RET) continue;
    if (BPF_CLASS(step.code) != BPF_JMP) {
      lead(at + 1);
    } else if (BPF_OP(step.code) == BPF_JA) {
      lead(at + 1 + step.k);
    } else {
      lead(at + 1 + step.jt);
      lead(at + 1 + step.jf);
    }
  }
  EXPECT_LE(deepest, 25u);
}

TEST(Seccomp, TravelsAsTheBytesOfItsInstructions) {
  const std::string bytes = filter_bytes(filter());
  ASSERT_EQ(bytes.size(), filter().size() * sizeof(sock_filter));
  EXPECT_EQ(std::memcmp(bytes.data(), filter().data(), bytes.size()), 0);
  EXPECT_EQ(filter_bytes(build_filter()), bytes);
}

}  // namespace
}  // namespace caisson::backend::native
