#include "backend/run.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/error_code.hpp>
#include <csignal>
#include <memory>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "model/box_settings.h"
#include "model/tools.h"

namespace caisson::backend {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

constexpr std::size_t kReadSize = 64u << 10;  // what a pipe holds unless told otherwise
constexpr int kReadsPerTurn = 4;              // then other work of the loop gets its turn
constexpr auto kForEver = std::chrono::hours(24 * 365 * 10);  // more would overflow the clock

// Our end of a pipe of which the process has the other: registered with the loop once, closed when
// the command has ended.
class PipeEnd {
 public:
  PipeEnd(const asio::any_io_executor& executor, UniqueFd fd) : descriptor_(executor) {
    set_nonblocking(fd.get());
    descriptor_.assign(fd.get());
    fd.release();
  }

  bool open() const { return descriptor_.is_open(); }
  int fd() { return descriptor_.native_handle(); }
  void close() {
    boost::system::error_code ignored;  // a pipe end holds nothing that closing could fail to keep
    descriptor_.close(ignored);
  }

  // Calls `handler` when the pipe is ready, not at all when it is closed before.
  template <typename Handler>
  void when_ready(stream_descriptor::wait_type what, Handler handler) {
    auto unless_failed = [handler = std::move(handler)](boost::system::error_code error) mutable {
      if (!error) handler();
    };
    descriptor_.async_wait(what, std::move(unless_failed));
  }

 private:
  stream_descriptor descriptor_;
};

// The group, and the process itself in case it has left the group it started in.
void kill_command(Process& process) noexcept {
  try {
    process.signal(SIGKILL, SignalTarget::group);
    process.signal(SIGKILL, SignalTarget::process);
  } catch (const std::exception&) {
    // The box went away in this moment, and the process with it: wait() says so.
  }
}

// One output stream. Bytes leave the pipe only in take(), never into a pending operation: whatever
// was not taken yet is in the pipe, where the last take() finds it.
class Collector {
 public:
  Collector(const asio::any_io_executor& executor, UniqueFd fd, OutputStream name,
            const RunOptions& options)
      : pipe_(executor, std::move(fd)),
        name_(name),
        limit_(options.output_limit),
        viewer_(options.viewer) {}

  PipeEnd& pipe() { return pipe_; }
  bool paused() const { return viewer_ && viewer_->paused(); }

  // Takes up to `most` bytes that are there now. Closes the pipe at its end.
  void take(std::size_t most) {
    char buffer[kReadSize];
    while (most > 0 && pipe_.open()) {
      const ssize_t got = ::read(pipe_.fd(), buffer, std::min(most, sizeof buffer));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got < 0) error_ = errno;
      if (got <= 0) return pipe_.close();
      keep({buffer, static_cast<std::size_t>(got)});
      most -= static_cast<std::size_t>(got);
    }
  }

  // Takes what is in the pipe at this moment, and no more: a background process may write for ever.
  CapturedStream finish() {
    if (pipe_.open()) {
      int waiting = 0;
      check_syscall("output pipe", ::ioctl(pipe_.fd(), FIONREAD, &waiting));
      take(static_cast<std::size_t>(waiting));
      pipe_.close();
    }
    if (error_ != 0) throw SystemError("output pipe", error_);
    return std::move(captured_);
  }

 private:
  void keep(std::string_view bytes) {
    const std::size_t room = limit_ - captured_.data.size();
    const std::size_t kept = std::min(room, bytes.size());
    captured_.data.append(bytes.substr(0, kept));
    captured_.discarded += bytes.size() - kept;
    if (viewer_) viewer_->show(name_, bytes);
  }

  PipeEnd pipe_;
  const OutputStream name_;
  const std::size_t limit_;
  const std::shared_ptr<OutputViewer> viewer_;
  CapturedStream captured_;
  int error_ = 0;
};

// Standard input. A process that does not read all of it loses the rest: that is not an error. The
// program that calls run() ignores SIGPIPE, as every main() of ours does; else such a process ends
// us.
class Feeder {
 public:
  Feeder(const asio::any_io_executor& executor, UniqueFd fd, std::string input)
      : pipe_(executor, std::move(fd)), input_(std::move(input)) {}

  PipeEnd& pipe() { return pipe_; }

  // Gives what fits into the pipe. Closes it when everything is written or nobody reads any more.
  void give() {
    while (given_ < input_.size()) {
      const ssize_t put = ::write(pipe_.fd(), input_.data() + given_, input_.size() - given_);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && errno == EAGAIN) return;
      if (put < 0) break;
      given_ += static_cast<std::size_t>(put);
    }
    pipe_.close();
  }

 private:
  PipeEnd pipe_;
  std::string input_;
  std::size_t given_ = 0;
};

// Everything that goes on while the command runs. Handlers of the loop share it, so that one which
// is already due when run() ends finds closed pipes and no process, not freed memory.
class Execution : public std::enable_shared_from_this<Execution> {
 public:
  Execution(const asio::any_io_executor& executor, StartedCommand command, RunOptions options)
      : out_(executor, std::move(command.out), OutputStream::out, options),
        err_(executor, std::move(command.err), OutputStream::err, options),
        viewer_(std::move(options.viewer)),
        cancellation_(std::move(options.cancellation)),
        timer_(executor),
        process_(std::move(command.process)) {
    if (command.in) in_.emplace(executor, std::move(command.in), std::move(options.input));
  }

  void begin(std::optional<Deadline> deadline) {
    if (in_) in_->give();  // most input fits into the pipe before anybody reads
    feed();
    collect(out_);
    collect(err_);
    if (viewer_) {
      viewer_->on_resume = [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->collect_again();
      };
    }
    if (cancellation_) on_cancel_.emplace(cancellation_.get(), [this] { kill(); });
    if (!deadline) return;
    timer_.expires_at(*deadline);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->expire();
    });
  }

  Task<ProcessExit> ended() { return process_->wait(); }
  bool timed_out() const { return timed_out_; }

  void finish(RunResult& result) {
    on_cancel_.reset();
    process_.reset();
    result.timed_out = timed_out_;
    result.out = out_.finish();
    result.err = err_.finish();
  }

  // Nothing of this goes on afterwards. A command that has not ended is killed: nobody waits for
  // it.
  void abandon() noexcept {
    on_cancel_.reset();
    kill();
    process_.reset();
    timer_.cancel();
    out_.pipe().close();
    err_.pipe().close();
    if (in_) in_->pipe().close();
  }

 private:
  // Waits for more, once at a time for each stream, unless the viewer has enough.
  void collect(Collector& stream) {
    bool& waiting = &stream == &out_ ? out_waiting_ : err_waiting_;
    if (waiting || !stream.pipe().open() || stream.paused()) return;
    waiting = true;
    auto take = [self = shared_from_this(), &stream, &waiting] {
      waiting = false;
      stream.take(kReadsPerTurn * kReadSize);
      self->collect(stream);
    };
    stream.pipe().when_ready(stream_descriptor::wait_read, std::move(take));
  }

  void collect_again() {
    collect(out_);
    collect(err_);
  }

  void feed() {
    if (!in_ || !in_->pipe().open()) return;
    auto give = [self = shared_from_this()] {
      self->in_->give();
      self->feed();
    };
    in_->pipe().when_ready(stream_descriptor::wait_write, std::move(give));
  }

  void expire() {
    if (!process_) return;
    timed_out_ = true;
    kill();
  }

  void kill() noexcept {
    if (process_) kill_command(*process_);
  }

  Collector out_;
  Collector err_;
  std::optional<Feeder> in_;
  std::shared_ptr<OutputViewer> viewer_;
  std::shared_ptr<Cancellation> cancellation_;
  std::optional<Cancellation::Handler> on_cancel_;
  asio::steady_timer timer_;
  std::unique_ptr<Process> process_;
  bool out_waiting_ = false;
  bool err_waiting_ = false;
  bool timed_out_ = false;
};

// Ends the execution with the coroutine, however the coroutine ends.
struct ExecutionOwner {
  std::shared_ptr<Execution> execution;
  ~ExecutionOwner() { execution->abandon(); }
};

}  // namespace

StartedCommand& StartedCommand::operator=(StartedCommand&& other) noexcept {
  kill();
  process = std::move(other.process);
  in = std::move(other.in);
  out = std::move(other.out);
  err = std::move(other.err);
  return *this;
}

void StartedCommand::kill() noexcept {
  if (process) kill_command(*process);
  process.reset();
}

Task<StartedCommand> start_command(Box& box, ProcessSpec process, Input input,
                                   std::vector<UniqueFd> more) {
  StartedCommand command;
  Stdio stdio;
  if (input == Input::pipe) {
    std::tie(stdio.in, command.in) = make_pipe();
  } else {
    stdio.in = open_file("/dev/null", O_RDONLY);
  }
  std::tie(command.out, stdio.out) = make_pipe();
  std::tie(command.err, stdio.err) = make_pipe();
  stdio.more = std::move(more);
  process.confirm_start = false;
  command.process = co_await box.start(std::move(process), std::move(stdio));
  co_return command;
}

Task<RunResult> run_to_end(StartedCommand command, RunOptions options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const Deadline started = Clock::now();
  std::optional<Deadline> deadline;
  if (options.timeout && *options.timeout < kForEver) deadline = started + *options.timeout;
  const ExecutionOwner owner{
      std::make_shared<Execution>(executor, std::move(command), std::move(options))};
  Execution& execution = *owner.execution;
  execution.begin(deadline);

  RunResult result;
  try {
    result.exit = co_await execution.ended();
  } catch (const Error& error) {
    // What a command wrote until its time was up is the caller's, whatever became of its box.
    if (error.code() != ErrorCode::box_lost || !execution.timed_out()) throw;
    result.box_lost = error.what();
  }
  result.duration = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - started);
  execution.finish(result);
  co_return result;
}

Task<RunResult> run(Box& box, RunRequest request) {
  ProcessSpec process = std::move(request.process);
  const Input input = request.input.empty() ? Input::none : Input::pipe;
  const Deadline asked = Clock::now();
  StartedCommand command = co_await start_command(box, std::move(process), input);
  const Clock::duration starting = Clock::now() - asked;
  RunOptions options = std::move(request);
  RunResult result = co_await run_to_end(std::move(command), std::move(options));
  // It may have begun long before this loop went on.
  result.duration += std::chrono::duration_cast<std::chrono::microseconds>(starting);
  co_return result;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& own) {
  std::vector<std::string> environment;
  for (std::string& entry : default_environment()) {
    if (!own.contains(entry.substr(0, entry.find('=')))) environment.push_back(std::move(entry));
  }
  for (const auto& [name, value] : own) environment.push_back(str(name, "=", value));
  return environment;
}

std::vector<std::string> default_environment() {
  const std::string installed = str(model::kBoxHome, "/.local");
  return {
      // What a user installs comes before what the system has, and that before what it lacks.
      str("PATH=", installed, "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:",
          model::kToolCommands),
      str("HOME=", model::kBoxHome),
      "LANG=C.UTF-8",
      // A server's answers leave it when they are given, not when 8 KiB are full.
      "PYTHONUNBUFFERED=1",
      // A distribution keeps its python for itself; in a box there is nobody to protect it for.
      "PIP_BREAK_SYSTEM_PACKAGES=1",
      "UV_BREAK_SYSTEM_PACKAGES=1",
      // The python that is there is the one to use: others come from no package index.
      "UV_PYTHON_DOWNLOADS=never",
      // Its settings for everybody lie below the prefix: those of the system stay in force, such as
      // its certificates.
      str("NPM_CONFIG_PREFIX=", installed),
      "NPM_CONFIG_GLOBALCONFIG=/usr/etc/npmrc",
  };
}

}  // namespace caisson::backend
