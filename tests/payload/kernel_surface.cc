// Row I13: parts of the kernel that no ordinary program needs are out of reach. The arguments are
// such that an ordinary user outside a box gets past the permission check wherever the kernel
// permits it, so that a refusal is the filter's.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/kcmp.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/fanotify.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "check.h"
#include "foreign_abi.h"
#include "support.h"

namespace caisson::payload {
namespace {

constexpr int kUserModeOnly = 1;                           // UFFD_USER_MODE_ONLY: open to everybody
constexpr int kProcessKeyring = KEY_SPEC_PROCESS_KEYRING;  // ends with this process

Outcome judge_fd(long fd) {
  return judge(UniqueFd(static_cast<int>(fd)).get());
}

Outcome bpf_map(Argument) {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = 4;
  attributes.value_size = 4;
  attributes.max_entries = 1;
  return judge_fd(::syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

Outcome perf_event(Argument) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  attributes.disabled = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  return judge_fd(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

Outcome userfault(Argument) {
  return judge_fd(::syscall(SYS_userfaultfd, O_CLOEXEC | kUserModeOnly));
}

Outcome io_uring(Argument) {
  io_uring_params parameters{};
  return judge_fd(::syscall(SYS_io_uring_setup, 1, &parameters));
}

Outcome keyctl_ring(Argument) {
  return judge(::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, kProcessKeyring, 0));
}
Outcome add_key_own(Argument) {
  return judge(::syscall(SYS_add_key, "user", "caisson-probe", "x", 1, kProcessKeyring));
}
Outcome request_key_none(Argument) {
  return judge(::syscall(SYS_request_key, "user", "caisson-no-such-key", nullptr, 0));
}

Outcome kcmp_self(Argument) {
  const pid_t self = ::getpid();
  return judge(::syscall(SYS_kcmp, self, self, KCMP_VM, 0, 0));
}

Outcome fanotify(Argument) {
  return judge_fd(::syscall(SYS_fanotify_init, FAN_CLOEXEC | FAN_REPORT_FID, O_RDONLY));
}

#if defined(SYS_modify_ldt)
Outcome modify_ldt_read(Argument) {
  char table[64];
  return judge(::syscall(SYS_modify_ldt, 0, table, sizeof table));
}
#else
Outcome modify_ldt_read(Argument) {
  return denied("no such call on this processor");
}
#endif

// A special file that is no block device: a permitted caller gets ENOTBLK.
Outcome quotactl_query(Argument) {
  return judge(::syscall(SYS_quotactl, QCMD(Q_GETFMT, USRQUOTA), "/dev/null", 0, nullptr));
}

Outcome personality_change(Argument) {
  return judge(::personality(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC));
}

struct Handle {
  file_handle header;
  unsigned char bytes[MAX_HANDLE_SZ];
};

Outcome name_to_handle(Argument) {
  Handle handle{};
  handle.header.handle_bytes = sizeof handle.bytes;
  int mount = 0;
  return judge(::syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount, 0));
}

Outcome open_by_handle(Argument) {
  Handle handle{};
  handle.header.handle_bytes = sizeof handle.bytes;
  int mount = 0;
  if (::syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount, 0) < 0) {
    handle.header.handle_bytes = 8;
    handle.header.handle_type = 1;
  }
  const UniqueFd root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return judge_fd(::syscall(SYS_open_by_handle_at, root.get(), &handle, O_RDONLY | O_CLOEXEC));
}

Outcome alg_socket(Argument) {
  const UniqueFd fd(::socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return judge(fd.get(), {EAFNOSUPPORT});
}

// The shortest of programs: everything passes.
sock_filter kPassAll[] = {{BPF_RET | BPF_K, 0, 0, 0xffffffff}};
constexpr sock_fprog kProgram{1, kPassAll};

Outcome attach_socket_filter(Argument) {
  for (const int option : {SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF}) {
    const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    const Outcome outcome =
        judge(::setsockopt(fd.get(), SOL_SOCKET, option, &kProgram, sizeof kProgram));
    if (outcome.verdict != Verdict::denied) return outcome;
  }
  return denied("EPERM");
}

// In this process, which ends after the check.
Outcome install_seccomp_filter(Argument) {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  sock_filter pass[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog program{1, pass};
  const Outcome outcome = judge(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
  if (outcome.verdict != Verdict::denied) return outcome;
  return judge(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), {EINVAL});
}

Outcome aio_context(Argument) {
  aio_context_t context = 0;
  return judge(::syscall(SYS_io_setup, 1, &context));
}

// On a file of its own, or the kernel would refuse it anyway.
Outcome lease(Argument) {
  const TempDir directory;
  const UniqueFd file(::open(directory.file("lease").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return broken("open " + errno_name(errno));
  return judge(::fcntl(file.get(), F_SETLEASE, F_WRLCK), {EINVAL});
}

Outcome directory_notification(Argument) {
  const UniqueFd directory(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return judge(::fcntl(directory.get(), F_NOTIFY, DN_ACCESS), {EINVAL});
}

// Protocols of the internet beside the usual ones, and the types of sockets that imply one.
Outcome rare_protocols(Argument) {
  struct Kind {
    const char* name;
    int type;
    int protocol;
  };
  constexpr int kL2tp = 115;
  constexpr int kSmc = 256;
  for (const Kind& kind :
       {Kind{"MPTCP", SOCK_STREAM, IPPROTO_MPTCP}, Kind{"UDP-Lite", SOCK_DGRAM, IPPROTO_UDPLITE},
        Kind{"SCTP", SOCK_SEQPACKET, IPPROTO_SCTP}, Kind{"SCTP", SOCK_STREAM, IPPROTO_SCTP},
        Kind{"SCTP", SOCK_SEQPACKET, 0}, Kind{"DCCP", SOCK_DCCP, IPPROTO_DCCP},
        Kind{"DCCP", SOCK_DCCP, 0}, Kind{"L2TP", SOCK_DGRAM, kL2tp},
        Kind{"SMC", SOCK_STREAM, kSmc}}) {
    for (const int family : {AF_INET, AF_INET6}) {
      const UniqueFd fd(::socket(family, kind.type | SOCK_CLOEXEC, kind.protocol));
      if (fd) return allowed(kind.name);
      const Outcome outcome = judge(-1, {EPROTONOSUPPORT, ESOCKTNOSUPPORT});
      if (outcome.verdict != Verdict::denied) return outcome;
    }
  }
  return denied("EPROTONOSUPPORT");
}

Outcome ia32_int80(Argument) {
  return judge_ia32_getpid();
}
Outcome x32_abi(Argument) {
  return judge_x32_getpid();
}

constexpr Check kChecks[] = {
    {"I13", "bpf", bpf_map},
    {"I13", "perf_event_open", perf_event},
    {"I13", "userfaultfd", userfault},
    {"I13", "io_uring", io_uring},
    {"I13", "keyctl", keyctl_ring},
    {"I13", "add_key", add_key_own},
    {"I13", "request_key", request_key_none},
    {"I13", "kcmp", kcmp_self},
    {"I13", "fanotify", fanotify},
    {"I13", "modify_ldt", modify_ldt_read},
    {"I13", "quotactl", quotactl_query},
    {"I13", "personality", personality_change},
    {"I13", "name_to_handle", name_to_handle},
    {"I13", "open_by_handle", open_by_handle},
    {"I13", "alg_socket", alg_socket},
    {"I13", "socket_filter", attach_socket_filter},
    {"I13", "seccomp_filter", install_seccomp_filter},
    {"I13", "io_setup", aio_context},
    {"I13", "lease", lease},
    {"I13", "dnotify", directory_notification},
    {"I13 I12", "rare_protocols", rare_protocols},
    {"I13", "ia32_int80", ia32_int80},
    {"I13", "x32", x32_abi},
};

}  // namespace

std::span<const Check> kernel_surface_checks() {
  return kChecks;
}

}  // namespace caisson::payload
