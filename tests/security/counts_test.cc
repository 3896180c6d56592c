// Row I15: what the kernel counts for a user. A box takes all of it that it gets, and neither the
// host nor another box gets less.
#include <fcntl.h>
#include <mqueue.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "isolation.h"

namespace caisson::security_test {
namespace {

class IsolationCounts : public Isolation {
 protected:
  // A process of the box that holds all it gets of a count, until it is dropped.
  struct Holder {
    std::unique_ptr<backend::Process> process;
    UniqueFd hold;
    int held = 0;
  };

  Holder hold(backend::Box& box, const std::string& kind) {
    auto [input, hold] = make_pipe();
    auto [output, output_end] = make_pipe();
    backend::ProcessSpec spec;
    spec.argv = {kPayload, "hold-count", kind};
    spec.env = backend::default_environment();
    backend::Stdio stdio{std::move(input), std::move(output_end), open_file("/dev/null", O_WRONLY)};
    Holder holder;
    holder.process = finish(box.start(std::move(spec), std::move(stdio)));
    holder.hold = std::move(hold);
    std::string line;
    char letter = 0;
    while (::read(output.get(), &letter, 1) == 1 && letter != '\n') line.push_back(letter);
    if (!line.starts_with("held ")) throw std::runtime_error(str("the holder answers: ", line));
    holder.held = std::stoi(line.substr(5));
    return holder;
  }

  void release(Holder& holder) {
    holder.hold.reset();
    EXPECT_EQ(finish(holder.process->wait()).exit_code, 0);
  }

  // Holds `kind` in one box and meanwhile asks the host, and root's boxes also another box.
  template <typename AskHost>
  void expect_others_unharmed(const std::string& kind, AskHost ask_host) {
    const std::unique_ptr<backend::Box> greedy = create_box(spec());
    const std::unique_ptr<backend::Box> other = create_box(spec());
    Holder all = hold(*greedy, kind);
    EXPECT_GT(all.held, 0);
    EXPECT_EQ(ask_host(), 0) << "the host gets none while a box holds " << all.held;
    if (::geteuid() == 0) {
      Holder more = hold(*other, kind);
      EXPECT_GE(more.held, all.held / 2) << "another box gets less";
      EXPECT_EQ(ask_host(), 0);
      release(more);
      const std::unique_ptr<backend::Box> fresh = create_box(spec());
      Holder fresh_one = hold(*fresh, kind);
      EXPECT_GE(fresh_one.held, all.held / 2) << "a new box gets less";
      release(fresh_one);
      destroy(*fresh);
    }
    release(all);
    // A slot's ids are used again: what the last box held is given back.
    destroy(*greedy);
    const std::unique_ptr<backend::Box> next = create_box(spec());
    Holder again = hold(*next, kind);
    EXPECT_GE(again.held, all.held / 2);
    release(again);
    destroy(*next);
    destroy(*other);
  }
};

// 0 or the errno of what an ordinary program of the host asks for.
int inotify_of_host() {
  const UniqueFd fd(::inotify_init1(IN_CLOEXEC));
  return fd ? 0 : errno;
}

int timer_of_host() {
  timer_t timer = nullptr;
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGRTMIN;
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) < 0) return errno;
  ::timer_delete(timer);
  return 0;
}

int message_queue_of_host() {
  const std::string name = str("/caisson-test-", ::getpid());
  mq_attr attributes{};
  attributes.mq_maxmsg = 1;
  attributes.mq_msgsize = 64;
  const mqd_t queue = ::mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
  if (queue < 0) return errno;
  ::mq_close(queue);
  ::mq_unlink(name.c_str());
  return 0;
}

TEST_F(IsolationCounts, I15ABoxThatTakesEveryInotifyInstanceLeavesTheOthersTheirs) {
  expect_others_unharmed("inotify", inotify_of_host);
}

TEST_F(IsolationCounts, I15ABoxThatQueuesSignalsLeavesTheOthersTheirs) {
  expect_others_unharmed("signals", timer_of_host);
}

TEST_F(IsolationCounts, I15ABoxThatMakesTimersLeavesTheOthersTheirs) {
  expect_others_unharmed("timers", timer_of_host);
}

TEST_F(IsolationCounts, I15ABoxThatFillsMessageQueuesLeavesTheOthersTheirs) {
  expect_others_unharmed("queues", message_queue_of_host);
}

}  // namespace
}  // namespace caisson::security_test
