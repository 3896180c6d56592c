#include "guest/keeper.h"

#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/seqpacket.h"
#include "wire/keeper.h"

namespace caisson::guest {

namespace {

class Keeper {
 public:
  Keeper(UniqueFd listener, UniqueFd directory)
      : listener_(std::move(listener)), directory_(std::move(directory)) {}

  int run() {
    while (!done_) {
      pollfd events[] = {{listener_.get(), POLLIN, 0}, {owner_.get(), POLLIN, 0}};
      const int ready = ::poll(events, 2, owner_ ? -1 : kLookAroundMs);
      if (ready < 0 && errno != EINTR) return 1;
      if (ready == 0) look_around();
      // All that an owner said counts, also when the next one is there already.
      if (events[1].revents != 0) {
        hear();
      } else if (events[0].revents != 0) {
        accept_owner();
      }
    }
    return 0;
  }

 private:
  struct Entry {
    std::string data;
    std::vector<UniqueFd> fds;
  };

  // Only the user who runs us: the socket lies in a directory of that user's.
  void accept_owner() {
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) return;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return;
    if (peer.uid != ::geteuid()) return;
    owner_ = std::move(connection);
  }

  void hear() {
    try {
      std::optional<Packet> packet = receive_packet(owner_.get());
      if (!packet) return leave();
      wire::KeeperRequest request = wire::decode_keeper_request(packet->data);
      std::visit([&](auto& r) { handle(r, packet->fds); }, request);
    } catch (const Error&) {
      leave();  // what is held stays: the next one may speak better
    }
  }

  void leave() {
    owner_.reset();
    done_ = entries_.empty();
    alone_since_ = Clock::now();
  }

  void look_around() {
    struct stat info {};
    const bool unreachable =
        ::fstatat(directory_.get(), wire::kKeeperSocketName, &info, 0) < 0 && errno == ENOENT;
    done_ = unreachable || Clock::now() - alone_since_ > kPatience;
  }

  void handle(wire::Keep& request, std::vector<UniqueFd>& fds) {
    entries_[request.name] = {std::move(request.data), std::move(fds)};
    most_ = std::max(most_, entries_.size());
  }
  void handle(const wire::Drop& request, const std::vector<UniqueFd>&) {
    entries_.erase(request.name);
    if (most_ < kMany || entries_.size() > most_ / 2) return;
    ::malloc_trim(0);
    most_ = entries_.size();
  }
  void handle(const wire::TellAll&, const std::vector<UniqueFd>&) {
    for (const auto& [name, entry] : entries_) {
      std::vector<int> fds;
      fds.reserve(entry.fds.size());
      for (const UniqueFd& fd : entry.fds) fds.push_back(fd.get());
      send_packet(owner_.get(), wire::encode(wire::KeeperReply(wire::Kept{name, entry.data})), fds);
    }
    send_packet(owner_.get(), wire::encode(wire::KeeperReply(wire::KeptAll{.pid = ::getpid()})));
  }
  void handle(const wire::Quit&, const std::vector<UniqueFd>&) { done_ = true; }

  static constexpr int kLookAroundMs = 2000;
  static constexpr std::chrono::minutes kPatience{10};
  static constexpr std::size_t kMany = 1000;

  UniqueFd listener_;
  UniqueFd directory_;
  UniqueFd owner_;
  Deadline alone_since_ = Clock::now();
  std::map<std::string, Entry> entries_;
  std::size_t most_ = 0;  // that there were since memory was given back
  bool done_ = false;
};

}  // namespace

int run_keeper(UniqueFd listener, UniqueFd directory) {
  ::signal(SIGPIPE, SIG_IGN);
  ::setsid();  // a terminal's signals are for the owner
  // Whoever connects is told by the kernel who listens: the process that said so last.
  ::listen(listener.get(), wire::kKeeperBacklog);
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) == 0) {
    most.rlim_cur = most.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &most);
  }
  return Keeper(std::move(listener), std::move(directory)).run();
}

}  // namespace caisson::guest
