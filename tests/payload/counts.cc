// Things that the kernel counts for a user rather than for a control group.
#include <mqueue.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <string>

#include "support.h"
#include "verbs.h"

namespace caisson::payload {
namespace {

constexpr int kPlenty = 200'000;  // more than any host allows a user
constexpr int kUsage = 2;

bool take_inotify_instance() {
  return ::inotify_init1(IN_CLOEXEC) >= 0;
}

// To itself, blocked: so it stays queued.
bool queue_signal() {
  return ::sigqueue(::getpid(), SIGRTMIN, {}) == 0;
}

bool make_timer() {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGRTMIN;
  timer_t timer = nullptr;
  return ::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
}

// Without a name, so that it is gone with the process.
bool make_message_queue() {
  const std::string name = "/caisson-count-" + std::to_string(::getpid());
  mq_attr attributes{};
  attributes.mq_maxmsg = 10;
  attributes.mq_msgsize = 4096;
  const mqd_t queue = ::mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
  ::mq_unlink(name.c_str());
  return queue >= 0;
}

}  // namespace

int run_hold_count(const Words& words) {
  struct Kind {
    std::string_view name;
    bool (*take)();
  };
  constexpr Kind kKinds[] = {{"inotify", take_inotify_instance},
                             {"signals", queue_signal},
                             {"timers", make_timer},
                             {"queues", make_message_queue}};
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGRTMIN);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  for (const Kind& kind : kKinds) {
    if (words.empty() || words[0] != kind.name) continue;
    int held = 0;
    while (held < kPlenty && kind.take()) ++held;
    std::printf("held %d\n", held);
    std::fflush(stdout);
    wait_for_end_of_input();
    return 0;
  }
  return kUsage;
}

}  // namespace caisson::payload
