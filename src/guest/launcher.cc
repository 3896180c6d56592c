#include "guest/launcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/seqpacket.h"
#include "base/str.h"
#include "guest/apply.h"
#include "guest/living_box.h"
#include "guest/lockdown.h"
#include "guest/serve.h"
#include "guest/step_error.h"
#include "wire/guest.h"
#include "wire/launch.h"

namespace caisson::guest {

namespace {

constexpr std::size_t kMaxRequestBytes = 4u << 20;

void report_failure(int control, const std::string& step, int error_number) {
  try {
    const wire::SetupFailed report{step, error_number};
    send_packet(control, wire::encode(wire::GuestMessage(report)));
  } catch (const Error&) {
    // Nobody is left to be told.
  }
}

// A request that was too large for a packet is in a memory file.
wire::LaunchRequest unpack(Packet& packet) {
  wire::LaunchRequest request = wire::decode_launch_request(packet.data);
  const auto* indirect = std::get_if<wire::IndirectLaunch>(&request);
  if (indirect == nullptr) return request;
  if (packet.fds.empty() || indirect->size > kMaxRequestBytes) {
    throw Error(ErrorCode::protocol_error, "malformed indirect request");
  }
  const UniqueFd file = std::move(packet.fds[0]);
  packet.fds.erase(packet.fds.begin());
  return wire::decode_launch_request(read_all(file.get(), "request", kMaxRequestBytes));
}

struct GuestPart {
  wire::GuestSettings settings;
  PayloadRules rules;
};

// Applies the plans. What they were made of is gone when this returns: an idle box costs little.
GuestPart build_box(const wire::LaunchBox& beginning, int control) {
  apply(beginning.plan, {}, control);
  std::optional<Packet> packet = receive_packet(control);
  if (!packet) ::_exit(0);  // nobody needed this box
  wire::LaunchRequest request = unpack(*packet);
  auto* rest = std::get_if<wire::FinishBox>(&request);
  if (rest == nullptr) throw Error(ErrorCode::protocol_error, "a box is made by FinishBox");
  apply(rest->plan, packet->fds, control);
  GuestPart part{.settings = std::move(rest->guest), .rules = {}};
  for (const wire::FdIndex index : part.settings.cgroups) {
    part.rules.cgroups.push_back(packet->fds.at(index).release());
  }
  return part;
}

// The box's side of a launch: becomes the guest. Never returns to the launcher's code, whatever
// happens.
[[noreturn]] void become_box(const wire::LaunchBox& beginning, UniqueFd control) noexcept {
  try {
    GuestPart part = build_box(beginning, control.get());
    serve(std::move(control), part.settings, std::move(part.rules));
  } catch (const StepError& failure) {
    report_failure(control.get(), failure.step, failure.error_number);
  } catch (const std::exception& failure) {
    report_failure(control.get(), failure.what(), 0);
  }
  ::_exit(1);
}

// The first process of a user namespace: shows the namespace, or sends the errno of what failed,
// and stays until the maps are written. The effective id makes the namespace its account's; the
// real one stays, or root's limit of processes would hold in there. Where the host reserves new
// user namespaces for root, the capabilities that went with the id are needed once more.
[[noreturn]] void found_user_namespace(std::uint32_t account, int proc, int control) noexcept {
  const bool moved =
      account == 0 || (::syscall(SYS_setresuid, -1, account, -1) == 0 && raise_capabilities() == 0);
  const bool made = moved && ::unshare(CLONE_NEWUSER) == 0;
  const int fd = made ? ::openat(proc, "self/ns/user", O_RDONLY | O_CLOEXEC) : -1;
  const std::string error_number = std::to_string(fd < 0 ? errno : 0);
  try {
    const int fds[] = {fd};
    send_packet(control, error_number, std::span(fds, fd < 0 ? 0 : 1));
    receive_packet(control);
  } catch (const Error&) {
    // The launcher is gone, and needs no namespace.
  }
  ::_exit(0);
}

std::string map_text(const std::vector<wire::IdRange>& ranges) {
  std::string text;
  for (const wire::IdRange& range : ranges) {
    text += str(range.inside, " ", range.outside, " ", range.count, "\n");
  }
  return text;
}

class Launcher {
 public:
  explicit Launcher(UniqueFd control)
      : control_(std::move(control)),
        proc_(open_file("/proc", O_RDONLY | O_DIRECTORY)),
        owner_(static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0))) {}

  int run() {
    while (serve_one()) {
    }
    if (!cgroups_.empty()) remove_cgroups();
    return 0;
  }

 private:
  struct OwnersCgroup {
    UniqueFd parent;
    std::string name;
    UniqueFd lock;  // nobody else takes it while it is removed
  };

  // False when the owner is gone.
  bool serve_one() {
    try {
      std::optional<Packet> packet = receive_packet(control_.get());
      if (!packet) return false;
      const wire::LaunchRequest request = unpack(*packet);
      std::visit([&](const auto& r) { handle(r, packet->fds); }, request);
    } catch (const StepError& failure) {
      reply(wire::LaunchFailed{failure.step, failure.error_number});
    } catch (const Error& failure) {
      if (failure.code() != ErrorCode::protocol_error) return false;
      reply(wire::LaunchFailed{failure.what(), EPROTO});
    }
    return true;
  }

  void handle(const wire::BuildTemplate& request, const std::vector<UniqueFd>& fds) {
    if (request.new_user_namespace) enter_own_user_namespace();
    check_step("new mount namespace", ::unshare(CLONE_NEWNS));
    check_step("make mounts private", ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
    apply(request.plan, fds, control_.get());
    ::malloc_trim(0);  // boxes are copies of this process
    reply(wire::Done{});
  }

  // An ordinary user may map one id: its own. In the new namespace it is root over the mounts it
  // makes. What boxes use of the user's counts ends at half of them: the limits that a namespace is
  // made under hold for all of it.
  void enter_own_user_namespace() {
    const uid_t uid = ::getuid();
    const gid_t gid = ::getgid();
    for (const __rlimit_resource_t resource : {RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE}) {
      rlimit limit{};
      ::getrlimit(resource, &limit);
      if (limit.rlim_cur != RLIM_INFINITY) limit.rlim_cur /= 2;
      check_step("halve a resource limit", ::setrlimit(resource, &limit));
    }
    check_step("new user namespace", ::unshare(CLONE_NEWUSER));
    write_proc("self/setgroups", "deny");
    write_proc("self/uid_map", str("0 ", uid, " 1\n"));
    write_proc("self/gid_map", str("0 ", gid, " 1\n"));
    halve_count("instances");
    halve_count("watches");
  }

  // Of inotify. Where the host shows sysctls read-only, boxes and their user share it all.
  void halve_count(std::string_view name) const {
    const std::string path = str("sys/fs/inotify/max_user_", name);
    const UniqueFd file(::openat(proc_.get(), path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return;
    try {
      const long most = std::stol(read_all(file.get(), path, 64));
      write_proc(str("sys/user/max_inotify_", name), std::to_string(most / 2));
    } catch (const std::exception&) {
    } catch (const StepError&) {
    }
  }

  void write_proc(const std::string& path, const std::string& content) const {
    const std::string what = str("write ", path);
    const UniqueFd file(
        check_step(what, ::openat(proc_.get(), path.c_str(), O_WRONLY | O_CLOEXEC)));
    check_step(what, ::write(file.get(), content.data(), content.size()));
  }

  // A user namespace outlives its first process as long as a descriptor holds it.
  void handle(const wire::CreateUserNamespace& request, const std::vector<UniqueFd>&) {
    const std::string what = "new user namespace";
    auto [ours, theirs] = seqpacket_pair();
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    const auto pid =
        static_cast<pid_t>(check_step(what, ::syscall(SYS_clone3, &arguments, sizeof arguments)));
    if (pid == 0) {
      ours.reset();
      found_user_namespace(request.account, proc_.get(), theirs.get());
    }
    theirs.reset();
    const auto release = [&, &end = ours] {
      end.reset();
      ::waitpid(pid, nullptr, 0);
    };
    UniqueFd user_namespace;
    try {
      std::optional<Packet> answer = receive_packet(ours.get());
      if (!answer) throw StepError{what, ECHILD};
      if (answer->fds.size() != 1) throw StepError{what, std::stoi(answer->data)};
      user_namespace = std::move(answer->fds[0]);
      write_proc(str(pid, "/uid_map"), map_text(request.uids));
      write_proc(str(pid, "/gid_map"), map_text(request.gids));
    } catch (...) {
      release();
      throw;
    }
    release();
    const int fds[] = {user_namespace.get()};
    reply(wire::Done{}, fds);
  }

  void handle(const wire::LaunchBox& request, std::vector<UniqueFd>& fds) {
    if (fds.size() != 1) throw Error(ErrorCode::protocol_error, "launch without a control socket");
    int pidfd = -1;
    clone_args arguments{};
    arguments.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD |
                      (request.new_network ? CLONE_NEWNET : 0u);
    arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
    arguments.exit_signal = SIGCHLD;
    const auto pid = static_cast<pid_t>(
        check_step("new namespaces", ::syscall(SYS_clone3, &arguments, sizeof arguments)));
    if (pid == 0) {
      ::signal(SIGCHLD, SIG_DFL);
      control_.reset();
      proc_.reset();
      owner_.reset();
      cgroups_.clear();
      number_lock_.reset();
      become_box(request, std::move(fds[0]));
    }
    const UniqueFd owned(pidfd);
    const int sent[] = {pidfd};
    reply(wire::Launched{pid}, sent);
  }

  void handle(const wire::AdoptCgroups& request, std::vector<UniqueFd>& fds) {
    if (request.names.empty() || fds.size() != request.names.size() + 1) {
      throw Error(ErrorCode::protocol_error, "cgroups without their directories");
    }
    number_lock_ = std::move(fds.back());
    for (std::size_t i = 0; i < request.names.size(); ++i) {
      UniqueFd parent(check_step("keep the owner's cgroups",
                                 ::openat(fds[i].get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
      cgroups_.push_back({std::move(parent), request.names[i], std::move(fds[i])});
    }
    reply(wire::Done{});
  }

  void handle(const wire::ShowMount& request, const std::vector<UniqueFd>& fds) {
    reply(in_another_process([&] { show_mount(request, fds); }));
  }
  void handle(const wire::HideMount& request, const std::vector<UniqueFd>& fds) {
    reply(in_another_process([&] { hide_mount(request, fds); }));
  }

  // Namespaces that this one must not enter are entered by a child.
  template <typename Work>
  static wire::LaunchReply in_another_process(const Work& work) {
    const std::string what = "new process";
    auto [ours, theirs] = seqpacket_pair();
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    if (check_step(what, ::syscall(SYS_clone3, &arguments, sizeof arguments)) == 0) {
      ours.reset();
      wire::LaunchReply result = wire::Done{};
      try {
        work();
      } catch (const StepError& failure) {
        result = wire::LaunchFailed{failure.step, failure.error_number};
      } catch (const std::exception& failure) {
        result = wire::LaunchFailed{failure.what(), EPROTO};
      }
      try {
        send_packet(theirs.get(), wire::encode(result));
      } catch (const Error&) {
      }
      ::_exit(0);
    }
    theirs.reset();
    const std::optional<Packet> answer = receive_packet(ours.get());
    if (!answer) throw StepError{what, ECHILD};
    return wire::decode_launch_reply(answer->data);
  }

  static void handle(const wire::IndirectLaunch&, const std::vector<UniqueFd>&) {
    throw Error(ErrorCode::protocol_error, "indirect request inside an indirect request");
  }
  static void handle(const wire::FinishBox&, const std::vector<UniqueFd>&) {
    throw Error(ErrorCode::protocol_error, "a box is finished on its own socket");
  }

  // An owner that is gone does not need an answer; the next receive tells.
  void reply(const wire::LaunchReply& message, std::span<const int> fds = {}) const {
    try {
      send_packet(control_.get(), wire::encode(message), fds);
    } catch (const Error&) {
    }
  }

  // The owner died without cleaning up. Its boxes end by themselves, as their sockets close; their
  // cgroups empty while that happens, so the removal waits for it, within a bound. An owner that
  // only closed its socket cleans up itself.
  void remove_cgroups() {
    pollfd owner{owner_.get(), POLLIN, 0};
    while (::poll(&owner, 1, -1) < 0 && errno == EINTR) {
    }
    for (const OwnersCgroup& group : cgroups_) {
      for (int attempt = 0; attempt < 500 && !remove(group); ++attempt) {
        const timespec pause{0, 10'000'000};
        ::nanosleep(&pause, nullptr);
      }
    }
  }

  // What has the name now may be another owner's, when ours removed its own.
  static bool remove(const OwnersCgroup& group) {
    struct stat ours {};
    struct stat found {};
    if (::fstat(group.lock.get(), &ours) < 0 ||
        ::fstatat(group.parent.get(), group.name.c_str(), &found, AT_SYMLINK_NOFOLLOW) < 0 ||
        ours.st_ino != found.st_ino) {
      return true;
    }
    return remove_tree(group.parent.get(), group.name);
  }

  static bool remove_tree(int parent, const std::string& name) {
    const int fd = ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return true;
    DIR* directory = ::fdopendir(fd);
    if (directory == nullptr) {
      ::close(fd);
      return true;
    }
    bool empty = true;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string child = entry->d_name;
      if (entry->d_type != DT_DIR || child == "." || child == "..") continue;
      empty = remove_tree(::dirfd(directory), child) && empty;
    }
    ::closedir(directory);
    return empty && (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT);
  }

  UniqueFd control_;
  UniqueFd proc_;
  UniqueFd owner_;  // a pidfd
  UniqueFd number_lock_;
  std::vector<OwnersCgroup> cgroups_;
};

// An owner that is kept from the out-of-memory killer does not extend that to boxes.
void stay_killable() {
  const UniqueFd score(::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
  char sign = 0;
  if (::read(score.get(), &sign, 1) != 1 || sign != '-') return;
  [[maybe_unused]] const ssize_t put = ::pwrite(score.get(), "0", 1, 0);
}

}  // namespace

int run_launcher(UniqueFd control) {
  ::signal(SIGPIPE, SIG_IGN);
  ::setsid();  // a terminal's signals are for the owner, who decides about boxes
  // Guests are reaped by the kernel: their end is seen through pidfds, by whoever holds one.
  ::signal(SIGCHLD, SIG_IGN);
  stay_killable();
  try {
    return Launcher(std::move(control)).run();
  } catch (const std::exception& failure) {
    ::dprintf(STDERR_FILENO, "caisson launcher: %s\n", failure.what());
    return 1;
  }
}

}  // namespace caisson::guest
