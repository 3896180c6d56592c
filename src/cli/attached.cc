#include "cli/attached.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

#include "async/blocking.h"
#include "async/signal.h"
#include "async/task_group.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/copy.h"
#include "cli/process_relay.h"
#include "cli/raw_terminal.h"
#include "cli/report.h"
#include "cli/signals.h"

namespace caisson::cli {

namespace {

namespace asio = boost::asio;
namespace json = boost::json;

constexpr int kHandled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
constexpr std::string_view kInterruptKey = "\x03";

RelayRequest relay_request(const Attachment& attachment) {
  RelayRequest request{
      .name = attachment.name, .from = attachment.from, .err_from = attachment.err_from};
  if (attachment.takeover) request.mode = RelayRequest::Mode::takeover;
  return request;
}

// Also tells what the exit code alone does not.
int exit_code_of(const RelayExit& exit) {
  if (exit.oom) {
    say(exit.signal == SIGKILL ? "the process was killed because it ran out of memory"
                               : "a part of the process was killed because it ran out of memory");
  }
  if (exit.signal) return kExitSignalBase + *exit.signal;
  if (exit.exit_code) return *exit.exit_code;
  say(str("the process has ended: ", exit.reason.empty() ? "nobody saw how" : exit.reason));
  return kExitFailure;
}

// Our end of it, while it lasts. One coroutine takes what comes; input and signals have their own.
class Attached {
 public:
  Attached(const asio::any_io_executor& executor, DaemonClient& client, Attachment attachment)
      : attachment_(std::move(attachment)),
        control_(executor, attachment_.daemon),
        relay_(executor, client, relay_request(attachment_)),
        signals_(executor),
        moved_(executor),
        tasks_(executor),
        stop_input_(check_syscall("eventfd", ::eventfd(0, EFD_CLOEXEC))) {
    relay_.on_notice = [this](const std::string& sentence) { notice(sentence); };
    for (const int number : kHandled) {
      if (!is_ignored(number)) signals_.add(number);
    }
  }

  Task<int> work() {
    tasks_.spawn("signals", watch_signals());
    std::exception_ptr failure;
    try {
      co_await converse();
    } catch (...) {
      failure = std::current_exception();
    }
    terminal_.reset();
    stopped_ = true;
    moved_.notify();
    check_syscall("eventfd", ::eventfd_write(stop_input_.get(), 1));
    boost::system::error_code ignored;  // nothing is waited for any more
    signals_.cancel(ignored);
    co_await tasks_.finish();
    if (failure) std::rethrow_exception(failure);
    if (!last_word_.empty()) say(last_word_);
    co_return exit_ ? exit_code_of(*exit_) : code_;
  }

 private:
  Task<void> converse() {
    for (;;) {
      RelayEvent event = co_await relay_.next();
      if (const auto* hello = std::get_if<RelayHello>(&event)) {
        begin(*hello);
      } else if (auto* output = std::get_if<RelayOutput>(&event)) {
        co_await show(std::move(*output));
      } else if (const auto* truncated = std::get_if<RelayTruncated>(&event)) {
        notice(missing_bytes(truncated->from, truncated->to));
      } else if (const auto* taken = std::get_if<RelayInputTaken>(&event)) {
        if (taken->sequence == sequence_) settle();
      } else {
        if (const auto* exit = std::get_if<RelayExit>(&event)) exit_ = *exit;
        co_return;
      }
    }
  }

  // On every connection: input that was under way is sent again, unless it has arrived.
  void begin(const RelayHello& hello) {
    tty_ = hello.tty;
    if (connection_++ == 0) {
      sequence_ = hello.last_sequence;
      if (attachment_.input && hello.running) {
        if (tty_ && ::isatty(STDIN_FILENO) != 0) terminal_.emplace(STDIN_FILENO);
        tasks_.spawn("input", pass_input());
      }
    } else if (tty_ || hello.last_sequence >= sequence_) {
      settle();  // keys may have been seen, and are not pressed twice
    }
    if (tty_) tasks_.spawn("size", pass_size());
    moved_.notify();
  }

  void settle() {
    pending_.clear();
    moved_.notify();
  }

  // The loop goes on while somebody does not read what we write.
  Task<void> show(RelayOutput output) {
    const bool is_err = output.stream == RelayStream::err;
    if (is_err && err_closed_) co_return;
    const int fd = is_err ? STDERR_FILENO : STDOUT_FILENO;
    auto write = [fd, bytes = std::move(output.bytes)] {
      int error = 0;
      const bool taken = FdSink{fd, error}(bytes);
      return std::pair(taken, error);
    };
    writing_ = true;
    const auto [taken, error] = co_await run_blocking(pool_, std::move(write));
    writing_ = false;
    if (taken) co_return;
    // The process may go on without a reader of its complaints.
    err_closed_ = err_closed_ || is_err;
    if (is_err) co_return;
    if (error != 0) throw SystemError("standard output", error);
    code_ = kExitSignalBase + SIGPIPE;
    co_await relay_.leave();
  }

  Task<void> pass_input() {
    const int stop = stop_input_.get();
    auto read = [stop] { return read_piece(STDIN_FILENO, stop); };
    DetachKeys keys;
    while (!stopped_) {
      auto again = read;
      std::optional<std::string> piece = co_await run_blocking(pool_, std::move(again));
      if (stopped_) co_return;
      if (!piece) co_return co_await pass_end_of_input();
      if (terminal_ && attachment_.detach_keys) {
        DetachKeys::Typed typed = keys.take(*piece);
        if (typed.detach) co_return co_await detach();
        piece = std::move(typed.bytes);
      }
      if (!piece->empty()) co_await pass(std::move(*piece));
    }
  }

  // Until the daemon has it; then it survives the daemon.
  Task<void> pass(std::string piece) {
    ++sequence_;
    pending_ = std::move(piece);
    while (!pending_.empty() && !stopped_) {
      const std::uint64_t connection = connection_;
      co_await relay_.send_binary(relay_input(sequence_, pending_));
      while (!pending_.empty() && connection == connection_ && !stopped_) co_await moved_.wait();
    }
  }

  // Told on every connection: nobody confirms it.
  Task<void> pass_end_of_input() {
    while (!stopped_) {
      const std::uint64_t connection = connection_;
      co_await relay_.send_text(relay_close_input());
      while (connection == connection_ && !stopped_) co_await moved_.wait();
    }
  }

  Task<void> detach() {
    const ProcessName& name = attachment_.name;
    last_word_ = str("detached from process ", printable(name.process), " of session ",
                     printable(name.session), ", which goes on");
    co_await relay_.leave();
  }

  Task<void> pass_size() {
    if (const std::optional<TerminalSize> size = terminal_size()) {
      co_await relay_.send_text(relay_resize(size->rows, size->columns));
    }
  }

  Task<void> watch_signals() {
    while (!stopped_) {
      const int number = co_await signals_.async_wait(asio::use_awaitable);
      if (number == SIGWINCH) {
        if (tty_ && relay_.connected()) co_await pass_size();
      } else if (number == SIGINT && relay_.connected()) {
        co_await interrupt();
      } else {
        co_await leave(number);
      }
    }
  }

  // Not on the websocket, where it would wait behind input that the process does not read.
  Task<void> interrupt() {
    if (tty_) {
      co_await relay_.send_binary(relay_input(0, kInterruptKey));
      co_return;
    }
    const std::string body = json::serialize(json::object{{"signal", SIGINT}});
    try {
      co_await control_.call("POST", process_target(attachment_.name, "/signal"), body);
    } catch (const Error& error) {
      notice(error.what());
    }
  }

  // Also while nobody answers, or takes our output: then there is nothing to wait for.
  Task<void> leave(int number) {
    code_ = kExitSignalBase + number;
    if (writing_ || !relay_.open()) {
      if (terminal_) terminal_->restore();
      std::_Exit(code_);
    }
    co_await relay_.leave();
  }

  void notice(const std::string& sentence) {
    if (terminal_) terminal_->restore();
    note(sentence);
    if (terminal_) terminal_->enter();
  }

  Attachment attachment_;
  DaemonClient control_;
  ProcessRelay relay_;
  asio::signal_set signals_;
  Signal moved_;  // a piece of input has arrived, there is a new connection, or all is over
  TaskGroup tasks_;
  UniqueFd stop_input_;
  asio::thread_pool pool_{2};  // one for our standard input, one for our output
  std::optional<RawTerminal> terminal_;
  bool tty_ = false;
  bool stopped_ = false;
  bool writing_ = false;
  bool err_closed_ = false;
  std::uint64_t connection_ = 0;  // how many there were
  std::uint64_t sequence_ = 0;    // of the last piece of input
  std::string pending_;           // the piece that is under way
  std::optional<RelayExit> exit_;
  std::string last_word_;
  int code_ = 0;
};

}  // namespace

Task<int> attach(DaemonClient& client, Attachment attachment) {
  Attached attached(co_await asio::this_coro::executor, client, std::move(attachment));
  co_return co_await attached.work();
}

}  // namespace caisson::cli
