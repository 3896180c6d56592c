#include "foreign_abi.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

namespace caisson::payload {
namespace {

#if defined(__x86_64__)

constexpr long kIa32GetPid = 20;
constexpr long kIa32SocketCall = 102;
constexpr long kSocketCallSocket = 1;
constexpr long kX32Bit = 0x40000000;

long int80(long number, long first, long second) {
  long result = number;
  asm volatile("int $0x80"
               : "+a"(result)
               : "b"(first), "c"(second)
               : "memory", "r8", "r9", "r10", "r11");
  return static_cast<int>(result);
}

// The child's exit status is the error number, 0 for a call that worked.
template <typename Call>
Outcome judge_in_child(Call call) {
  const pid_t child = ::fork();
  if (child < 0) return broken("fork " + errno_name(errno));
  if (child == 0) {
    const long result = call();
    ::_exit(result >= 0 ? 0 : static_cast<int>(-result));
  }
  int status = 0;
  if (::waitpid(child, &status, 0) < 0) return broken("waitpid " + errno_name(errno));
  if (WIFSIGNALED(status)) {
    return denied(std::string("killed by SIG") + ::sigabbrev_np(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) == 0) return allowed("the call works");
  return broken("answered " + errno_name(WEXITSTATUS(status)) + " instead of ending the process");
}

#endif

}  // namespace

#if defined(__x86_64__)

Outcome judge_ia32_getpid() {
  return judge_in_child([] { return int80(kIa32GetPid, 0, 0); });
}

Outcome judge_ia32_socket(int family, int type) {
  void* memory =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (memory == MAP_FAILED) return broken("mmap " + errno_name(errno));
  auto* arguments = static_cast<std::int32_t*>(memory);
  arguments[0] = family;
  arguments[1] = type;
  arguments[2] = 0;
  const long address = reinterpret_cast<std::intptr_t>(memory);
  return judge_in_child([address] { return int80(kIa32SocketCall, kSocketCallSocket, address); });
}

// A kernel without this ABI answers ENOSYS by itself.
Outcome judge_x32_getpid() {
  const Outcome outcome = judge_in_child([] {
    const long result = ::syscall(kX32Bit | SYS_getpid);
    return result < 0 ? static_cast<long>(-errno) : result;
  });
  const bool absent = outcome.detail.find("ENOSYS") != std::string::npos;
  return absent ? denied("ENOSYS") : outcome;
}

#else

Outcome judge_ia32_getpid() {
  return denied("no such ABI on this processor");
}
Outcome judge_ia32_socket(int, int) {
  return denied("no such ABI on this processor");
}
Outcome judge_x32_getpid() {
  return denied("no such ABI on this processor");
}

#endif

}  // namespace caisson::payload
