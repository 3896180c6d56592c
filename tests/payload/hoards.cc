// Verbs that hold what the kernel keeps for everybody, for tests of whether others still get
// theirs.
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"
#include "verbs.h"

namespace caisson::payload {
namespace {

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// Takes the whole range and gives every second byte back, from the end: each time one lock becomes
// two, in the shortest way through the kernel's list.
int take_locks(int file, long long wanted) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 2 * wanted + 2;
  if (::fcntl(file, F_SETLK, &lock) < 0) return errno;
  lock.l_type = F_UNLCK;
  lock.l_len = 1;
  for (long long i = wanted; i > 0; --i) {
    lock.l_start = 2 * i - 1;
    if (::fcntl(file, F_SETLK, &lock) < 0) return errno;
  }
  return 0;
}

int take_locks_in_child(void* argument) {
  const auto& [file, wanted] = *static_cast<std::pair<int, long long>*>(argument);
  return take_locks(file, wanted);
}

}  // namespace

// With a third word a child takes them, which shares our descriptors and ends: they stay.
int run_hold_locks(const Words& words) {
  const UniqueFd file(::open(words.at(0).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  std::pair<int, long long> task{file.get(), std::atoll(words.at(1).c_str())};
  int error_number = 0;
  if (words.size() > 2) {
    std::vector<char> stack(1u << 16);
    const int child = ::clone(take_locks_in_child, stack.data() + stack.size(),
                              CLONE_FILES | CLONE_VM | SIGCHLD, &task);
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) < 0) return 1;
    error_number = WEXITSTATUS(status);
  } else {
    error_number = take_locks_in_child(&task);
  }
  say(error_number == 0 ? "held" : "refused " + errno_name(error_number));
  wait_for_end_of_input();
  return 0;
}

// Tells at the end of standard input how often something was opened or read in the directory.
int run_watch(const Words& words) {
  const UniqueFd events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (::inotify_add_watch(events.get(), words.at(0).c_str(), IN_OPEN | IN_ACCESS) < 0) {
    say("refused " + errno_name(errno));
    return 1;
  }
  say("watching");
  wait_for_end_of_input();
  alignas(inotify_event) char buffer[4096];
  int seen = 0;
  for (ssize_t got = 0; (got = ::read(events.get(), buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < got; ++seen) {
      const auto& event = *reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
  say("saw " + std::to_string(seen));
  return 0;
}

int run_flock(const Words& words) {
  const UniqueFd file(::open(words.at(0).c_str(), O_RDONLY | O_CLOEXEC));
  say(::flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? "locked" : "refused " + errno_name(errno));
  wait_for_end_of_input();
  return 0;
}

// Requests that are refused; nobody reads why.
int run_hold_netlink(const Words& words) {
  struct {
    nlmsghdr header;
    ifaddrmsg body;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_NEWADDR;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  std::vector<UniqueFd> sockets;
  const auto wanted = static_cast<std::size_t>(std::atoll(words.at(0).c_str()));
  while (sockets.size() < wanted) {
    sockets.emplace_back(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!sockets.back()) break;
    for (int i = 0; i < 400; ++i) {
      if (::send(sockets.back().get(), &request, sizeof request, MSG_DONTWAIT) < 0) break;
    }
  }
  say("held");
  wait_for_end_of_input();
  return 0;
}

}  // namespace caisson::payload
