#include "guest/serve.h"

#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/seqpacket.h"
#include "base/uptime.h"
#include "guest/prove.h"
#include "guest/step_error.h"
#include "wire/guest.h"

namespace caisson::guest {

namespace {

std::uint64_t microseconds(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(time.tv_usec);
}

// The message inside a memory file, copied before it is decoded.
std::string read_memory_file(int fd, std::uint64_t size) {
  struct stat info {};
  if (size > wire::kMaxIndirectBytes || ::fstat(fd, &info) < 0 ||
      static_cast<std::uint64_t>(info.st_size) != size) {
    throw Error(ErrorCode::protocol_error, "memory file of another size than announced");
  }
  std::string content(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(fd, content.data() + done, size - done, static_cast<off_t>(done));
    if (got <= 0) throw Error(ErrorCode::protocol_error, "memory file cut short");
    done += static_cast<std::size_t>(got);
  }
  return content;
}

class Guest {
 public:
  Guest(UniqueFd control, const wire::GuestSettings& settings, PayloadRules rules)
      : control_(std::move(control)), settings_(settings), rules_(std::move(rules)) {}

  [[noreturn]] void run() {
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    children_ = UniqueFd(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    ::signal(SIGPIPE, SIG_DFL);  // the launcher ignores it, and payloads inherit what we do
    if (!children_) ::_exit(1);
    send_proofs();
    release_memory();
    for (;;) turn();
  }

 private:
  void send_proofs() {
    try {
      send(wire::Ready{.version = wire::kGuestProtocolVersion, .proofs = prove(settings_, rules_)});
    } catch (const StepError& failure) {
      send(wire::SetupFailed{failure.step, failure.error_number});
      ::_exit(1);
    }
  }

  // What setting up needed. An idle box shall cost little, and there may be thousands.
  static void release_memory() {
    ::malloc_trim(0);
    constexpr std::uintptr_t kPage = 4096;
    constexpr std::uintptr_t kDeep = 15 * kPage;
    char* page = static_cast<char*>(__builtin_frame_address(0));
    page -= reinterpret_cast<std::uintptr_t>(page) % kPage;
    ::madvise(page - kPage - kDeep, kDeep, MADV_DONTNEED);
  }

  struct Child {
    pid_t pid;
    std::uint64_t id;
    bool running;  // an ended leader is kept while its group may still be signalled
    bool remember;
  };

  // Starts when another process has ended.
  struct Waiting {
    wire::Start request;
    std::vector<UniqueFd> fds;
  };

  // A start that took longer than a moment: its process shares our memory, and may be stopped.
  struct Starting {
    std::unique_ptr<PayloadStart> start;
    bool listed = false;  // a new owner knows it as running
  };

  void turn() {
    pollfd events[] = {{control_.get(), POLLIN, 0}, {children_.get(), POLLIN, 0}};
    if (::poll(events, 2, poll_timeout()) < 0 && errno != EINTR) ::_exit(1);
    if (events[1].revents != 0) reap();
    if (events[0].revents != 0) receive();
    if (!starting_.empty()) settle_starts();
    if (ending_ && (children_gone_ || Clock::now() >= end_deadline_)) finish();
  }

  int poll_timeout() const {
    constexpr std::int64_t kLook = 20;  // nothing tells of a start that goes on at last
    if (!ending_) return starting_.empty() ? -1 : static_cast<int>(kLook);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_deadline_ - Clock::now());
    return static_cast<int>(
        std::clamp<std::int64_t>(left.count(), 0, starting_.empty() ? INT_MAX : kLook));
  }

  void receive() {
    std::optional<Packet> packet;
    try {
      packet = receive_packet(control_.get());
    } catch (const Error&) {
      finish();
    }
    if (!packet) finish();  // the owner is gone and takes the box with it
    try {
      wire::OwnerMessage message = wire::decode_owner_message(packet->data);
      if (const auto* indirect = std::get_if<wire::Indirect>(&message)) {
        if (packet->fds.empty()) throw Error(ErrorCode::protocol_error, "no memory file");
        message =
            wire::decode_owner_message(read_memory_file(packet->fds[0].get(), indirect->size));
        packet->fds.erase(packet->fds.begin());
      }
      std::visit([&](auto& m) { handle(m, packet->fds); }, message);
    } catch (const Error&) {
      finish();  // an owner that does not speak the protocol is no owner
    }
  }

  void handle(wire::Start& request, std::vector<UniqueFd>& fds) {
    if (request.cgroups > fds.size()) {
      throw Error(ErrorCode::protocol_error, "start with too few descriptors");
    }
    const std::size_t own = fds.size() - request.cgroups;
    const std::size_t least = request.terminal ? 0 : 3;
    const std::size_t most = request.terminal ? 0 : wire::kMaxStartFds;
    if (own < least || own > most) {
      throw Error(ErrorCode::protocol_error, "start with too few or too many descriptors");
    }
    last_id_ = std::max(last_id_, request.id);
    if (request.after != 0 && find_running(request.after) != nullptr) {
      waiting_.push_back({std::move(request), std::move(fds)});
    } else {
      start(std::move(request), fds);
    }
  }

  void start(wire::Start request, std::span<const UniqueFd> fds) {
    const std::size_t own = fds.size() - request.cgroups;
    PayloadRules rules = rules_;
    if (request.cgroups > 0) rules.cgroups.clear();
    for (const UniqueFd& fd : fds.subspan(own)) rules.cgroups.push_back(fd.get());
    Starting starting{std::make_unique<PayloadStart>(std::move(request), fds.first(own), rules)};
    const PayloadStart& begun = *starting.start;
    if (begun.pid() > 0) {
      children_gone_ = false;
      running_.push_back({begun.pid(), begun.request().id, true, begun.request().remember});
    }
    if (begun.wait_a_moment()) {
      settle(starting);
    } else {
      starting_.push_back(std::move(starting));
    }
  }

  // The program of a start runs, or could not be executed. To an owner that took over meanwhile it
  // is one that runs: its end is all there is to tell.
  void settle(Starting& starting) {
    if (starting.listed) return;
    PayloadStart& start = *starting.start;
    const wire::Start& request = start.request();
    const StartOutcome outcome = start.outcome();
    if (outcome.step_failed) {
      std::erase_if(running_, [&](const Child& c) { return c.id == request.id; });
      send(wire::StartFailed{request.id, outcome.step, outcome.error_number});
      if (!ending_) start_waiting(request.id);
      return;
    }
    if (!request.report_start) return;
    const UniqueFd master = start.take_terminal();
    const int terminal[] = {master.get()};
    send(wire::Started{request.id, start.pid()}, std::span(terminal).first(master ? 1 : 0));
  }

  void settle_starts() {
    for (std::size_t i = 0; i < starting_.size();) {
      if (!starting_[i].start->decided()) {
        ++i;
        continue;
      }
      Starting decided = std::move(starting_[i]);
      starting_.erase(starting_.begin() + static_cast<std::ptrdiff_t>(i));
      settle(decided);
    }
  }

  Child* find_running(std::uint64_t id) {
    const auto child = std::find_if(running_.begin(), running_.end(),
                                    [&](const Child& c) { return c.id == id && c.running; });
    return child == running_.end() ? nullptr : &*child;
  }

  // Those that waited for the end of this one.
  void start_waiting(std::uint64_t id) {
    for (std::size_t i = 0; i < waiting_.size();) {
      if (waiting_[i].request.after != id) {
        ++i;
        continue;
      }
      Waiting next = std::move(waiting_[i]);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      start(std::move(next.request), next.fds);
    }
  }

  void handle(const wire::Signal& request, const std::vector<UniqueFd>&) {
    const auto waits = [&](const Waiting& w) { return w.request.id == request.id; };
    if (request.signal_number == SIGKILL && std::erase_if(waiting_, waits) > 0) {
      send(wire::StartFailed{request.id, wire::StartStep::request, ECANCELED});
      return;
    }
    const auto child = std::find_if(running_.begin(), running_.end(),
                                    [&](const Child& c) { return c.id == request.id; });
    if (child == running_.end()) return;
    // One that stands still on its way to its program may have no group yet.
    const bool no_group = request.group && ::kill(-child->pid, request.signal_number) < 0;
    if (child->running && (no_group || !request.group)) {
      ::kill(child->pid, request.signal_number);
    }
  }

  void handle(const wire::End& request, const std::vector<UniqueFd>&) {
    ending_ = true;
    end_deadline_ = Clock::now() + std::chrono::milliseconds(request.grace_ms);
    if (request.grace_ms > 0) ::kill(-1, SIGTERM);
    reap();
  }

  // A new owner has none of the descriptors that waiting programs would write to.
  void handle(const wire::ListProcesses&, const std::vector<UniqueFd>&) {
    waiting_.clear();
    for (Starting& starting : starting_) starting.listed = true;
    wire::Processes answer{.last_id = last_id_, .running = {}, .ended = remembered_};
    for (const Child& child : running_) {
      if (child.running) answer.running.push_back({child.id, child.pid, child.remember});
    }
    send(answer);
  }

  void handle(const wire::Forget& request, const std::vector<UniqueFd>&) {
    std::erase_if(remembered_, [&](const wire::Exited& exited) { return exited.id == request.id; });
  }

  void handle(const wire::Ping& request, const std::vector<UniqueFd>&) {
    send(wire::Pong{request.token});
  }
  void handle(const wire::NetworkReady&, const std::vector<UniqueFd>&) {}
  void handle(const wire::Indirect&, const std::vector<UniqueFd>&) {
    throw Error(ErrorCode::protocol_error, "memory file inside a memory file");
  }

  // Everything in the box ends up here: the programs that were started and whatever they left
  // behind.
  void reap() {
    signalfd_siginfo ignored[8];
    while (::read(children_.get(), ignored, sizeof ignored) > 0) {
    }
    for (;;) {
      int status = 0;
      rusage usage{};
      const std::uint64_t now = uptime_us();  // before: the pid is gone for all with the call
      const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
      if (pid == 0) return;
      if (pid < 0) {
        children_gone_ = errno == ECHILD;
        running_.clear();
        return;
      }
      if (!starting_.empty()) settle_starts();  // it may have ended on its way to its program
      const auto child = std::find_if(running_.begin(), running_.end(),
                                      [&](const Child& c) { return c.pid == pid && c.running; });
      if (child == running_.end()) continue;
      child->running = false;
      const wire::Exited exited{
          .id = child->id,
          .status = status,
          .user_us = microseconds(usage.ru_utime),
          .system_us = microseconds(usage.ru_stime),
          .peak_memory_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024,
          .ended_us = now};
      if (child->remember) remember(exited);
      send(exited);
      forget_old();
      if (!ending_) start_waiting(exited.id);
    }
  }

  void remember(const wire::Exited& exited) {
    constexpr std::size_t kMaxRemembered = 1024;
    if (remembered_.size() == kMaxRemembered) remembered_.erase(remembered_.begin());
    remembered_.push_back(exited);
  }

  // The pid of an ended leader stays reserved for its group only while the group lives; a box that
  // runs thousands of commands keeps a bounded number of them.
  void forget_old() {
    constexpr std::size_t kMaxEnded = 256;
    const auto ended = [](const Child& c) { return !c.running; };
    running_.erase(std::remove_if(running_.begin(), running_.end(),
                                  [&](const Child& c) {
                                    return ended(c) && ::kill(-c.pid, 0) < 0 && errno == ESRCH;
                                  }),
                   running_.end());
    while (static_cast<std::size_t>(std::count_if(running_.begin(), running_.end(), ended)) >
           kMaxEnded) {
      running_.erase(std::find_if(running_.begin(), running_.end(), ended));
    }
  }

  // The exit of process 1 ends every other process of the namespace before it is seen outside.
  [[noreturn]] void finish() { ::_exit(0); }

  void send(const wire::GuestMessage& message, std::span<const int> fds = {}) {
    try {
      send_packet(control_.get(), wire::encode(message), fds);
    } catch (const Error&) {
      finish();
    }
  }

  UniqueFd control_;
  UniqueFd children_;
  const wire::GuestSettings& settings_;
  PayloadRules rules_;
  std::vector<Child> running_;
  std::vector<Starting> starting_;
  std::vector<Waiting> waiting_;
  std::vector<wire::Exited> remembered_;  // ends that nobody has noted yet
  std::uint64_t last_id_ = 0;
  bool children_gone_ = true;
  bool ending_ = false;
  Deadline end_deadline_{};
};

}  // namespace

void serve(UniqueFd control, const wire::GuestSettings& settings, PayloadRules rules) {
  Guest(std::move(control), settings, std::move(rules)).run();
}

}  // namespace caisson::guest
