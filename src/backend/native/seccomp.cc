#include "backend/native/seccomp.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <map>

#include "base/error.h"

namespace caisson::backend::native {

namespace {

using Program = std::vector<sock_filter>;

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr std::uint32_t deny(int error) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
}

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the system call filter knows x86_64 and aarch64"
#endif

sock_filter statement(unsigned code, std::uint32_t k) {
  return {static_cast<std::uint16_t>(code), 0, 0, k};
}
sock_filter jump(unsigned code, std::uint32_t k, std::size_t if_true, std::size_t if_false) {
  return {static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(if_true),
          static_cast<std::uint8_t>(if_false), k};
}
sock_filter answer(std::uint32_t value) {
  return statement(BPF_RET | BPF_K, value);
}
enum class Half { low, high };
sock_filter load_argument(std::size_t index, Half half = Half::low) {
  // The low half: the kernel looks at no more of an argument that is not a pointer. Little-endian,
  // as both architectures.
  return statement(BPF_LD | BPF_W | BPF_ABS,
                   static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * index +
                                              (half == Half::high ? 4 : 0)));
}

// Denied when any of the bits is set in the argument.
Program without_bits(unsigned argument, std::uint32_t bits, int error) {
  return {load_argument(argument), jump(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
          answer(deny(error)), answer(kAllow)};
}

// Allowed for these values of the argument only.
Program one_of(unsigned argument, const std::vector<std::uint32_t>& values, int error) {
  Program program{load_argument(argument)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    program.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, values[i], values.size() - i, 0));
  }
  program.push_back(answer(deny(error)));
  program.push_back(answer(kAllow));
  return program;
}

// Denied for these values of the argument.
Program none_of(unsigned argument, const std::vector<std::uint32_t>& values, int error) {
  Program program{load_argument(argument)};
  for (std::size_t i = 0; i < values.size(); ++i) {
    program.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, values[i], values.size() - i, 0));
  }
  program.push_back(answer(kAllow));
  program.push_back(answer(deny(error)));
  return program;
}

// Allowed but for this value of the argument, about which the rest decides.
Program with_value(unsigned argument, std::uint32_t value, const Program& rest) {
  Program program{load_argument(argument), jump(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0),
                  answer(kAllow)};
  program.insert(program.end(), rest.begin(), rest.end());
  return program;
}

// Neither typing into a terminal nor making a subvolume of btrfs, which anybody may do in a
// directory of their own: it would not count towards the limit of the workspace it is in.
Program harmless_requests() {
  return none_of(1,
                 {TIOCSTI, TIOCLINUX, BTRFS_IOC_SUBVOL_CREATE, BTRFS_IOC_SUBVOL_CREATE_V2,
                  BTRFS_IOC_SNAP_CREATE, BTRFS_IOC_SNAP_CREATE_V2},
                 EPERM);
}

// Files with the bits would be set-user-ID programs of the workspace's owner, on the host.
constexpr std::uint32_t kSetIdBits = S_ISUID | S_ISGID;

// The mode argument means something only when the call may create a file; otherwise it is
// leftovers.
Program creation_without_set_id(unsigned flags_argument) {
  constexpr std::uint32_t kCreates = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);
  return {load_argument(flags_argument),
          jump(BPF_JMP | BPF_JSET | BPF_K, kCreates, 0, 3),
          load_argument(flags_argument + 1),
          jump(BPF_JMP | BPF_JSET | BPF_K, kSetIdBits, 0, 1),
          answer(deny(EPERM)),
          answer(kAllow)};
}

Program device_free_node() {
  // mknod(path, mode, dev): fifos, sockets and regular files only.
  Program program{load_argument(1), statement(BPF_ALU | BPF_AND | BPF_K, S_IFMT | kSetIdBits)};
  const std::uint32_t allowed[] = {0, S_IFREG, S_IFIFO, S_IFSOCK};
  for (std::size_t i = 0; i < 4; ++i) {
    program.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 4 - i, 0));
  }
  program.push_back(answer(deny(EPERM)));
  program.push_back(answer(kAllow));
  return program;
}

Program device_free_node_at() {
  Program program = device_free_node();
  program[0] = load_argument(2);
  return program;
}

// Routing information is what getifaddrs() asks netlink for; the other families of it stay shut.
// Of the internet's protocols those that programs use: asking for another one would load its module
// into the host's kernel, by its number or, for DCCP, by the type of the socket alone.
Program ordinary_sockets() {
  constexpr std::uint32_t kTypeBits = 0xf;  // the others are SOCK_NONBLOCK and SOCK_CLOEXEC
  return {load_argument(0),
          jump(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 6, 0),
          jump(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 5, 0),
          jump(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 16, 0),
          jump(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 2),
          load_argument(2),
          jump(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_ROUTE, 13, 0),
          answer(deny(EAFNOSUPPORT)),
          load_argument(1),  // SOCK_STREAM, SOCK_DGRAM and SOCK_RAW are 1 to 3
          statement(BPF_ALU | BPF_AND | BPF_K, kTypeBits),
          jump(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
          jump(BPF_JMP | BPF_JGE | BPF_K, SOCK_RAW + 1, 0, 1),
          answer(deny(ESOCKTNOSUPPORT)),
          load_argument(2),
          jump(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IP, 5, 0),
          jump(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 4, 0),
          jump(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 3, 0),
          jump(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMP, 2, 0),
          jump(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 1, 0),
          answer(deny(EPROTONOSUPPORT)),
          answer(kAllow)};
}

// Compiled filters take memory that the kernel bounds for the whole host and that no cgroup counts:
// a box that could attach them would keep every other box from getting its own. A program that
// wants to confine itself finds a kernel without filters, and goes on without.
Program socket_options_without_filters() {
  return with_value(
      1, SOL_SOCKET,
      none_of(2,
              {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF},
              EPERM));
}
Program control_without_filters() {
  return with_value(0, PR_SET_SECCOMP, none_of(1, {SECCOMP_MODE_FILTER}, EINVAL));
}

// A lease holds up whoever else opens the file, for as long as fs.lease-break-time; a notification
// is a watch that nobody counts. The answer is that of a kernel that was built without them.
//
// Locks of an open file belong to no process, so that nobody could tell whose box they fill the
// kernel's memory for. As a kernel before 3.15 answers: programs take plain ones then.
Program ordinary_commands() {
  constexpr std::uint32_t kSetDelegation = 1040;  // F_SETDELEG: a lease, of directories too
  return none_of(1, {F_SETLEASE, F_NOTIFY, kSetDelegation, F_OFD_SETLK, F_OFD_SETLKW}, EINVAL);
}

// The limit of core files stays at 1, which keeps a crash from the program that a piped
// core_pattern names, while 0 does not. Programs set it to 0 and give up when they cannot: to them
// it is done, and is: no core is written.
constexpr std::uint32_t kPretend = deny(0);

Program limits_without_cores() {
  return with_value(0, RLIMIT_CORE, {answer(kPretend)});
}
Program process_limits_without_cores() {
  return with_value(
      1, RLIMIT_CORE,
      {load_argument(2), jump(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2), load_argument(2, Half::high),
       jump(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), answer(kPretend), answer(kAllow)});
}

constexpr std::uint32_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                         CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

std::map<std::string_view, Program> calls_with_conditions() {
  return {
      {"clone", without_bits(0, kNewNamespaces, EPERM)},
      {"clone3", {answer(deny(ENOSYS))}},   // its flags are in memory, out of a filter's sight
      {"openat2", {answer(deny(ENOSYS))}},  // likewise its mode
      {"socket", ordinary_sockets()},
      {"setsockopt", socket_options_without_filters()},
      {"seccomp", none_of(0, {SECCOMP_SET_MODE_FILTER}, ENOSYS)},
      {"prctl", control_without_filters()},
      {"fcntl", ordinary_commands()},
      {"setrlimit", limits_without_cores()},
      {"prlimit64", process_limits_without_cores()},
      {"socketpair", one_of(0, {AF_UNIX}, EAFNOSUPPORT)},
      {"personality", one_of(0, {PER_LINUX, 0xffffffff}, EPERM)},
      {"ioctl", harmless_requests()},
      {"chmod", without_bits(1, kSetIdBits, EPERM)},
      {"fchmod", without_bits(1, kSetIdBits, EPERM)},
      {"fchmodat", without_bits(2, kSetIdBits, EPERM)},
      {"fchmodat2", without_bits(2, kSetIdBits, EPERM)},
      {"creat", without_bits(1, kSetIdBits, EPERM)},
      {"open", creation_without_set_id(1)},
      {"openat", creation_without_set_id(2)},
      {"mknod", device_free_node()},
      {"mknodat", device_free_node_at()},
  };
}

// What happens to each call number: an answer, or a little program that looks at arguments.
using Decision = std::map<int, Program>;

void decide(Decision& decisions, std::string_view name, const Program& program) {
  const int number = seccomp_syscall_resolve_name(std::string(name).c_str());
  if (number >= 0) decisions[number] = program;  // negative: not a call of this architecture
}

struct Range {
  std::uint32_t first;
  const Program* program;
};

// The numbers cut into ranges with the same treatment, so that the tree has as few leaves as
// possible.
std::vector<Range> ranges(const Decision& decisions, const Program& unknown) {
  std::vector<Range> result{{0, nullptr}};
  const auto same = [](const Program& a, const Program& b) {
    return a.size() == 1 && b.size() == 1 && a[0].k == b[0].k;
  };
  const int last = decisions.rbegin()->first;
  const Program* current = nullptr;
  for (int number = 0; number <= last + 1; ++number) {
    const auto found = decisions.find(number);
    const Program* program = found == decisions.end() ? &unknown : &found->second;
    if (current == nullptr) {
      result[0].program = program;
    } else if (!same(*current, *program)) {
      result.push_back({static_cast<std::uint32_t>(number), program});
    }
    current = program;
  }
  return result;
}

// if (number >= middle) right else left. A conditional jump reaches 255 instructions, BPF_JA any.
Program tree(const std::vector<Range>& all, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return *all[begin].program;
  const std::size_t middle = begin + (end - begin) / 2;
  const Program left = tree(all, begin, middle);
  const Program right = tree(all, middle, end);
  Program program;
  if (left.size() <= 255) {
    program.push_back(jump(BPF_JMP | BPF_JGE | BPF_K, all[middle].first, left.size(), 0));
  } else {
    program.push_back(jump(BPF_JMP | BPF_JGE | BPF_K, all[middle].first, 0, 1));
    program.push_back(statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(left.size())));
  }
  program.insert(program.end(), left.begin(), left.end());
  program.insert(program.end(), right.begin(), right.end());
  return program;
}

}  // namespace

std::vector<sock_filter> build_filter() {
  const Program allow{answer(kAllow)};
  const Program denied{answer(deny(EPERM))};
  const Program unknown{answer(deny(ENOSYS))};
  const std::map<std::string_view, Program> conditions = calls_with_conditions();
  Decision decisions;
  for (const std::string_view name : allowed_calls()) decide(decisions, name, allow);
  for (const std::string_view name : denied_calls()) decide(decisions, name, denied);
  for (const auto& [name, program] : conditions) decide(decisions, name, program);

  Program program{
      statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      jump(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      answer(kKill),
      statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
#if defined(__x86_64__)
  constexpr std::uint32_t kX32Bit = 0x40000000;
  program.push_back(jump(BPF_JMP | BPF_JGE | BPF_K, kX32Bit, 0, 1));
  program.push_back(answer(kKill));
#endif
  const std::vector<Range> all = ranges(decisions, unknown);
  const Program body = tree(all, 0, all.size());
  program.insert(program.end(), body.begin(), body.end());
  if (program.size() > BPF_MAXINSNS) {
    throw Error(ErrorCode::internal_error, "the system call filter is too long");
  }
  return program;
}

std::string filter_bytes(const std::vector<sock_filter>& program) {
  return {reinterpret_cast<const char*>(program.data()), program.size() * sizeof(sock_filter)};
}

}  // namespace caisson::backend::native
