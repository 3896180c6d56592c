#include "cli/one_shot.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <csignal>
#include <exception>
#include <memory>
#include <utility>

#include "async/blocking.h"
#include "async/event.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/signals.h"

namespace caisson::cli {

namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

// How long output that is on its way is waited for when somebody wants to end it all.
constexpr auto kLinger = milliseconds(200);
constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP};

// What goes on while the command runs. Handlers of the loop share it, so that one which is due when
// all is over finds it.
class Run : public std::enable_shared_from_this<Run> {
 public:
  Run(asio::any_io_executor executor, OneShot request)
      : executor_(std::move(executor)),
        request_(std::move(request)),
        signals_(executor_),
        timer_(executor_),
        over_(executor_),
        drained_(executor_) {}

  void watch_signals() {
    for (const int number : kForwarded) {
      if (!is_ignored(number)) signals_.add(number);
    }
    wait_for_signal();
  }

  bool interrupted() const { return outcome_.interrupted != 0; }

  Task<void> start(backend::Box& box) {
    const std::shared_ptr<Run> self = shared_from_this();
    auto [out_read, out_write] = make_pipe();
    auto [err_read, err_write] = make_pipe();
    UniqueFd in_write;
    backend::Stdio stdio;
    stdio.out = std::move(out_write);
    stdio.err = std::move(err_write);
    if (request_.input) {
      auto [in_read, write_end] = make_pipe();
      stdio.in = std::move(in_read);
      in_write = std::move(write_end);
    } else {
      stdio.in = open_file("/dev/null", O_RDONLY);
    }
    backend::ProcessSpec process{
        .argv = std::move(request_.argv), .env = std::move(request_.env), .cwd = request_.workdir};
    const Deadline begun = Clock::now();
    process_ = co_await box.start(std::move(process), std::move(stdio));
    copy(std::move(out_read), request_.out);
    copy(std::move(err_read), request_.err);
    if (request_.input) feed(std::move(in_write), *request_.input);
    if (request_.timeout) expire_at(begun + *request_.timeout);
    asio::co_spawn(executor_, wait_for_process(self, begun), rethrow_nothing);
  }

  // Returns when the command has ended or the box is to end. Throws when the box ended by itself.
  Task<void> over() {
    const std::shared_ptr<Run> self = shared_from_this();
    co_await over_.wait();
    if (lost_) std::rethrow_exception(lost_);
  }

  // The box is gone. Returns when everything the command wrote has been passed on.
  Task<OneShotOutcome> finish() {
    const std::shared_ptr<Run> self = shared_from_this();
    timer_.cancel();
    process_.reset();
    if (stop_input_) check_syscall("eventfd", ::eventfd_write(stop_input_.get(), 1));
    finishing_ = true;
    const Deadline patience = interrupted() ? Clock::now() + kLinger : Deadline::max();
    if (copies_ > 0) co_await drained_.wait_until(patience);
    outcome_.output_complete = copies_ == 0;
    if (pool_ && outcome_.output_complete) pool_->join();
    stop();
    co_return std::move(outcome_);
  }

  void stop() {
    stopped_ = true;                    // a signal that is due already must not be waited for again
    boost::system::error_code ignored;  // nothing is waited for any more
    signals_.cancel(ignored);
    timer_.cancel();
  }

  void ready(const model::IsolationReport& isolation) {
    outcome_.isolation = isolation;
    if (request_.on_ready) request_.on_ready(isolation);
  }

 private:
  static void rethrow_nothing(const std::exception_ptr&) {}  // the coroutine keeps what it caught

  void wait_for_signal() {
    signals_.async_wait([self = shared_from_this()](boost::system::error_code error, int number) {
      if (error || self->stopped_) return;
      self->on_signal(number);
      self->wait_for_signal();
    });
  }

  // The first one is the command's to answer. Without a command, and the second time, it is ours.
  void on_signal(int number) {
    if (process_ && !std::exchange(forwarded_, true)) {
      process_->signal(number, backend::SignalTarget::group);
      return;
    }
    outcome_.interrupted = number;
    over_.set();
    if (finishing_) drained_.set();
  }

  void expire_at(Deadline deadline) {
    timer_.expires_at(deadline);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error && self->process_) self->expire();
    });
  }

  void expire() {
    outcome_.timed_out = true;
    // The group, and the process itself in case it has left the group it started in.
    process_->signal(SIGKILL, backend::SignalTarget::group);
    process_->signal(SIGKILL, backend::SignalTarget::process);
  }

  static Task<void> wait_for_process(std::shared_ptr<Run> self, Deadline begun) {
    // Kept here: the box may be gone, and finish() with it, while this waits.
    const std::shared_ptr<backend::Process> process = self->process_;
    try {
      self->outcome_.exit = co_await process->wait();
    } catch (...) {
      // A command whose time is up may take its box with it, which ends now anyway.
      if (!self->outcome_.timed_out) self->lost_ = std::current_exception();
    }
    self->outcome_.duration =
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun);
    self->over_.set();
  }

  void copy(UniqueFd pipe, Sink sink) {
    in_background([pipe = std::move(pipe), sink = std::move(sink)]() mutable {
      copy_output(std::move(pipe), sink);
    });
  }

  void feed(UniqueFd pipe, int from) {
    stop_input_ = UniqueFd(check_syscall("eventfd", ::eventfd(0, EFD_CLOEXEC)));
    in_background([pipe = std::move(pipe), from, stop = stop_input_.get()]() mutable {
      copy_input(from, std::move(pipe), stop);
    });
  }

  template <typename Work>
  void in_background(Work work) {
    if (!pool_) pool_ = std::make_unique<asio::thread_pool>(request_.input ? 3 : 2);
    ++copies_;
    auto done = [self = shared_from_this()](const std::exception_ptr&) {
      if (--self->copies_ == 0) self->drained_.set();
    };
    asio::co_spawn(executor_, run_blocking(*pool_, std::move(work)), std::move(done));
  }

  asio::any_io_executor executor_;
  OneShot request_;
  asio::signal_set signals_;
  asio::steady_timer timer_;
  Event over_;     // the command has ended, or the box is to end
  Event drained_;  // all output is passed on, or nobody waits for it any more
  std::shared_ptr<backend::Process> process_;
  std::exception_ptr lost_;
  bool forwarded_ = false;
  bool finishing_ = false;
  bool stopped_ = false;
  UniqueFd stop_input_;
  std::unique_ptr<asio::thread_pool> pool_;  // made when there is something to copy
  int copies_ = 0;
  OneShotOutcome outcome_;
};

}  // namespace

Task<OneShotOutcome> run_one_shot(backend::Backend& backend, OneShot request) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  model::BoxSettings settings = request.box;
  const auto run = std::make_shared<Run>(executor, std::move(request));
  run->watch_signals();
  std::unique_ptr<backend::Box> box;
  std::exception_ptr failure;
  try {
    box = co_await backend.create(std::move(settings));
    run->ready(box->isolation());
    if (!run->interrupted()) {
      co_await run->start(*box);
      co_await run->over();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (box) co_await box->destroy(milliseconds(0));
  OneShotOutcome outcome = co_await run->finish();
  // A signal from the terminal also reaches what makes the box; then it is no failure of ours.
  if (failure && outcome.interrupted == 0) std::rethrow_exception(failure);
  co_return outcome;
}

}  // namespace caisson::cli
