#include "guest/apply.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "base/seqpacket.h"
#include "guest/lockdown.h"
#include "guest/root.h"
#include "guest/step_error.h"
#include "wire/guest.h"

namespace caisson::guest {

namespace {

class Runner {
 public:
  Runner(const std::vector<UniqueFd>& fds, int control)
      : fds_(fds), control_(control), root_(fds) {}

  // Steps about the file system belong to Root.
  template <typename Step>
  void operator()(const Step& step) {
    root_.apply(step);
  }

  void operator()(const wire::EnterCgroups& step) {
    for (const wire::FdIndex index : step.fds) {
      check_step("enter the cgroups", ::write(fd(index), "0", 1));
    }
  }
  void operator()(const wire::NewCgroupNamespace&) {
    check_step("new cgroup namespace", ::unshare(CLONE_NEWCGROUP));
  }
  void operator()(const wire::BringLoopbackUp&) {
    const UniqueFd socket(
        check_step("bring lo up", ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
    ifreq request{};
    std::memcpy(request.ifr_name, "lo", 3);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    check_step("bring lo up", ::ioctl(socket.get(), SIOCSIFFLAGS, &request));
  }
  void operator()(const wire::HandOverNetwork&);
  void operator()(const wire::HandOverMounts&) {
    const std::string what = "hand over the mounts";
    const UniqueFd mounts(check_step(what, ::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)));
    const int fds[] = {mounts.get()};
    send_packet(control_, wire::encode(wire::GuestMessage(wire::MountsHandover{})), fds);
  }
  void operator()(const wire::SetHostname& step) {
    check_step("set the hostname", ::sethostname(step.name.data(), step.name.size()));
  }
  // Everything on disk is done once the user namespace is entered: nothing may be mounted after it.
  void operator()(const wire::EnterUserNamespace& step) {
    root_.finish();
    enter_user_namespace(fd(step.fd), step.uid, step.gid);
  }
  void operator()(const wire::SetResourceLimit& step) {
    const rlimit limit{step.value, step.value};
    check_step("set a resource limit",
               ::setrlimit(static_cast<__rlimit_resource_t>(step.resource), &limit));
  }
  void operator()(const wire::DropPrivileges&) { drop_privileges(); }
  void operator()(const wire::InstallFilter& step) { install_filter(step.program); }

 private:
  int fd(wire::FdIndex index) const {
    if (index >= fds_.size()) throw StepError{"plan with a missing descriptor", EBADF};
    return fds_[index].get();
  }

  const std::vector<UniqueFd>& fds_;
  int control_;
  Root root_;
};

void Runner::operator()(const wire::HandOverNetwork&) {
  const std::string what = "hand over the network";
  const UniqueFd netlink(
      check_step(what, ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)));
  const UniqueFd network(check_step(what, ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)));
  const int fds[] = {network.get(), netlink.get()};
  send_packet(control_, wire::encode(wire::GuestMessage(wire::NetworkHandover{})), fds);
  const std::optional<Packet> answer = receive_packet(control_);
  if (!answer) throw StepError{what, ECONNRESET};
  if (!std::holds_alternative<wire::NetworkReady>(wire::decode_owner_message(answer->data))) {
    throw StepError{what, EPROTO};
  }
}

}  // namespace

void apply(const wire::Plan& plan, const std::vector<UniqueFd>& fds, int control) {
  Runner runner(fds, control);
  for (const wire::Step& step : plan) std::visit(runner, step);
}

}  // namespace caisson::guest
