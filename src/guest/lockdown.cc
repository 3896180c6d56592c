#include "guest/lockdown.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "guest/raw_call.h"
#include "guest/step_error.h"
#include "wire/plan.h"

namespace caisson::guest {

namespace {

// Returns 0, or the error as a negative number.
int set_capabilities(std::uint64_t kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  for (unsigned i = 0; i < 2; ++i) {
    data[i].permitted = data[i].effective = static_cast<std::uint32_t>(kept >> (32 * i));
  }
  return static_cast<int>(raw_call(SYS_capset, &header, data));
}

}  // namespace

void enter_user_namespace(int user_namespace, std::uint32_t uid, std::uint32_t gid) {
  check_step("enter the user namespace", ::setns(user_namespace, CLONE_NEWUSER));
  // The raw calls: this process has one thread, and the C library's wrappers look for others.
  // A namespace whose gid map its owner wrote without privilege forbids setgroups; then there are
  // none.
  if (::syscall(SYS_setgroups, 0, nullptr) < 0 && errno != EPERM) {
    throw StepError{"drop the groups", errno};
  }
  check_step("set the group", ::syscall(SYS_setresgid, gid, gid, gid));
  check_step("set the user", ::syscall(SYS_setresuid, uid, uid, uid));
}

void drop_privileges() {
  for (int capability = 0;; ++capability) {
    const int held = ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
    if (held < 0) break;  // past the last capability this kernel knows
    if (held > 0)
      check_step("empty the bounding set", ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0));
  }
  check_step("clear the ambient set", ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
  check_step("set no_new_privs", ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  constexpr std::uint64_t kKept = (1ull << CAP_SETUID) | (1ull << CAP_SETGID) | (1ull << CAP_KILL);
  if (const int result = set_capabilities(kKept); result < 0) {
    throw StepError{"drop capabilities", -result};
  }
  check_step("become undumpable", ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
}

int raise_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) < 0) return -1;
  for (__user_cap_data_struct& half : data) half.effective = half.permitted;
  return static_cast<int>(::syscall(SYS_capset, &header, data));
}

int drop_all_capabilities() {
  return set_capabilities(0);
}

void install_filter(std::string_view program) {
  std::vector<sock_filter> instructions(program.size() / sizeof(sock_filter));
  std::memcpy(instructions.data(), program.data(), instructions.size() * sizeof(sock_filter));
  sock_fprog filter{static_cast<unsigned short>(instructions.size()), instructions.data()};
  check_step(wire::kInstallFilterStep, ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter));
}

}  // namespace caisson::guest
