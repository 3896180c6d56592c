#include "session/process_streams.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/text.h"
#include "journal/pump.h"

namespace caisson::session {

namespace {

namespace asio = boost::asio;

// What a process wrote is all there soon after its end, unless somebody else has its pipes.
constexpr std::chrono::seconds kOutputGrace{1};
constexpr std::size_t kPiece = 1u << 20;
// Offsets are reserved ahead in steps of this, each of which is a message to the keeper. Half of it
// is more than moves between two looks.
constexpr std::uint64_t kReserve = 64u << 20;

// Standard error is nobody's to wait for: it never holds a process back.
journal::Limits limits_of(const model::ManagedProcessSpec& spec, bool output) {
  const bool hold = output && spec.overflow == model::OutputPolicy::hold;
  return {.capacity = static_cast<std::uint64_t>(spec.journal_bytes),
          .overflow = hold ? journal::Overflow::hold : journal::Overflow::release_oldest};
}

journal::Journal::Opened open_journal(const std::filesystem::path& directory, const char* name,
                                      const journal::Limits& limits, std::uint64_t end_at_most,
                                      const std::string& who) {
  journal::Journal::Opened opened = journal::Journal::open(directory, name, limits, end_at_most);
  if (opened.damage) {
    log::error("a journal was damaged; it goes on where it ended", "process", who, "stream", name,
               "reason", opened.damage->reason, "kept", opened.damage->data_kept_as.native());
  }
  return opened;
}

}  // namespace

ProcessStreams::ProcessStreams(const StreamsContext& context, std::filesystem::path directory,
                               bool tty, std::unique_ptr<journal::Journal> out,
                               std::unique_ptr<journal::Journal> err)
    : context_(context),
      directory_(std::move(directory)),
      tty_(tty),
      out_(std::move(out)),
      err_(std::move(err)),
      out_feed_(context.executor, *out_),
      err_feed_(context.executor, *err_),
      input_moved_(context.executor),
      stream_ended_(context.executor),
      pumps_(context.executor),
      input_pumps_(context.executor) {
  reserve();
}

std::unique_ptr<ProcessStreams> ProcessStreams::create(const StreamsContext& context,
                                                       const std::filesystem::path& directory,
                                                       const model::ManagedProcessSpec& spec) {
  auto out = journal::Journal::create(directory, "out", limits_of(spec, true));
  auto err = journal::Journal::create(directory, "err", limits_of(spec, false));
  std::unique_ptr<ProcessStreams> streams(
      new ProcessStreams(context, directory, spec.tty, std::move(out), std::move(err)));
  if (spec.tty) {
    std::tie(streams->ends_.through_read, streams->ends_.through_write) = make_pipe();
    streams->err_->mark_closed();
  } else {
    streams->in_.emplace(journal::InputLog::create(directory, "in"));
  }
  return streams;
}

// The order of descriptors() is that of `kept`; those of a program are missing when it has ended.
std::unique_ptr<ProcessStreams> ProcessStreams::open(const StreamsContext& context,
                                                     const std::filesystem::path& directory,
                                                     const model::ManagedProcessSpec& spec,
                                                     std::vector<UniqueFd> kept,
                                                     ReservedOffsets reserved,
                                                     const std::string& who) {
  std::error_code made;
  if (std::filesystem::create_directory(directory, made)) {
    log::error("the files of a process were removed; it goes on with new ones", "process", who);
  }
  auto out = open_journal(directory, "out", limits_of(spec, true), reserved.out, who);
  auto err = open_journal(directory, "err", limits_of(spec, false), reserved.err, who);
  std::unique_ptr<ProcessStreams> streams(new ProcessStreams(
      context, directory, spec.tty, std::move(out.journal), std::move(err.journal)));
  Ends& ends = streams->ends_;
  const std::size_t own = spec.tty ? 2 : 1;
  if (kept.size() < own) {
    throw Error(ErrorCode::protocol_error, "a process was kept without its streams");
  }
  if (spec.tty) {
    ends.through_read = std::move(kept[0]);
    ends.through_write = std::move(kept[1]);
    if (kept.size() > 2) ends.terminal = std::move(kept[2]);
  } else {
    auto input = journal::InputLog::open(directory, "in", std::move(kept[0]));
    if (!input.damage.empty()) {
      log::error("an input log was damaged; it goes on", "process", who, "reason", input.damage);
    }
    streams->in_.emplace(std::move(input.log));
    if (kept.size() > 2) {
      ends.out = std::move(kept[1]);
      ends.err = std::move(kept[2]);
    }
    if (kept.size() > 3) ends.in = std::move(kept[3]);
  }
  return streams;
}

std::vector<int> ProcessStreams::descriptors() const {
  if (tty_) {
    std::vector<int> fds{ends_.through_read.get(), ends_.through_write.get()};
    if (ends_.terminal) fds.push_back(ends_.terminal.get());
    return fds;
  }
  std::vector<int> fds{in_->descriptor()};
  if (ends_.out) {
    fds.push_back(ends_.out.get());
    fds.push_back(ends_.err.get());
  }
  if (ends_.in) fds.push_back(ends_.in.get());
  return fds;
}

backend::Stdio ProcessStreams::make_pipes() {
  backend::Stdio stdio;
  if (tty_) return stdio;
  std::tie(stdio.in, ends_.in) = make_pipe();
  std::tie(ends_.out, stdio.out) = make_pipe();
  std::tie(ends_.err, stdio.err) = make_pipe();
  return stdio;
}

void ProcessStreams::run() {
  flowing_ = 0;
  if (ends_.terminal) {
    ++flowing_;
    pumps_.spawn("terminal",
                 pump(out_feed_, duplicate(ends_.terminal.get(), "stream of a process"), true));
    return;
  }
  if (!ends_.out) return;
  flowing_ += 2;
  pumps_.spawn("standard output",
               pump(out_feed_, duplicate(ends_.out.get(), "stream of a process"), false));
  pumps_.spawn("standard error",
               pump(err_feed_, duplicate(ends_.err.get(), "stream of a process"), false));
  input_broken_ = !ends_.in;
  if (!ends_.in) return;
  input_ = std::make_unique<journal::InputPump>(
      context_.executor, *in_, duplicate(ends_.in.get(), "stream of a process"), &input_moved_);
  input_pumps_.spawn("standard input", pump_input());
}

Task<void> ProcessStreams::pump(journal::Feed& feed, UniqueFd source, bool terminal) {
  std::optional<journal::Through> through;
  if (terminal)
    through.emplace(duplicate(ends_.through_read.get(), "stream of a process"),
                    duplicate(ends_.through_write.get(), "stream of a process"));
  journal::Pump pump(context_.executor, context_.disk, feed, std::move(source), std::move(through),
                     {.closes = false, .on_move = [this] { reserve(); }});
  co_await pump.run();
  --flowing_;
  stream_ended_.notify();
}

void ProcessStreams::reserve() {
  const ReservedOffsets before = reserved_;
  if (out_->end() + kReserve / 2 > reserved_.out) reserved_.out = out_->end() + kReserve;
  if (err_->end() + kReserve / 2 > reserved_.err) reserved_.err = err_->end() + kReserve;
  if (reserved_ != before && on_change) on_change();
}

// The process sees the end of its input when nobody holds the pipe any more.
Task<void> ProcessStreams::pump_input() {
  co_await input_->run();
  ends_.in.reset();
  input_broken_ = true;
  input_moved_.notify();
  if (on_change) on_change();
}

Task<void> ProcessStreams::finish() {
  // The end of one stream may be followed by that of the other at once.
  const Deadline deadline = Clock::now() + kOutputGrace;
  Event late(context_.executor);
  TaskGroup watch(context_.executor);
  watch.spawn("end of output", [](ProcessStreams& streams, Event& ended) -> Task<void> {
    while (streams.flowing_ > 0) co_await streams.stream_ended_.wait();
    ended.set();
  }(*this, late));
  co_await late.wait_until(deadline);
  co_await watch.stop();
  co_await stop();
  co_await context_.disk.run(false, [this] {
    drain(*out_);
    if (!tty_) drain(*err_);
  });
  out_feed_.announce();
  err_feed_.announce();
  input_.reset();
  ends_.out.reset();
  ends_.err.reset();
  ends_.in.reset();
  ends_.terminal.reset();
  input_moved_.notify();
}

// What is in the pipe now was written before the end; what comes later is somebody else's.
void ProcessStreams::drain(journal::Journal& journal) {
  const bool output = &journal == out_.get();
  journal.use_slack(true);
  try {
    for (;;) {
      journal::Drained drained;
      if (output && ends_.terminal) {
        drained = journal.drain_terminal({.master = ends_.terminal.get(),
                                          .through_read = ends_.through_read.get(),
                                          .through_write = ends_.through_write.get()},
                                         kPiece);
      } else if (const UniqueFd& end = output ? ends_.out : ends_.err) {
        drained = journal.drain(end.get(), kPiece);
      }
      if (drained.bytes == 0) break;
    }
  } catch (const Error& error) {
    log::error("the end of a stream is lost", "directory", directory_.native(), "error",
               error.what());
  }
  journal.use_slack(false);
}

std::uint64_t ProcessStreams::bytes() const {
  return out_->end() - out_->begin() + err_->end() - err_->begin() + (in_ ? in_->queued() : 0);
}

Task<void> ProcessStreams::close() {
  co_await context_.disk.run(false, [this] {
    out_->mark_closed();
    err_->mark_closed();
  });
  out_feed_.announce();
  err_feed_.announce();
  input_broken_ = true;
  input_moved_.notify();
}

Task<void> ProcessStreams::stop() {
  co_await input_pumps_.stop();
  co_await pumps_.stop();
}

Task<bool> ProcessStreams::write(std::uint64_t sequence, std::string bytes) {
  if (tty_) co_return co_await write_terminal(std::move(bytes));
  const std::string_view all = bytes;
  co_return co_await append(sequence, std::span(&all, 1));
}

Task<bool> ProcessStreams::write_lines(std::vector<std::string> lines) {
  if (tty_) co_return co_await write_terminal(str(join(lines, "\n"), "\n"));
  std::vector<std::string_view> pieces;
  pieces.reserve(2 * lines.size());
  for (const std::string& line : lines) {
    pieces.push_back(line);
    pieces.emplace_back("\n");
  }
  co_return co_await append(0, pieces);
}

Task<bool> ProcessStreams::append(std::uint64_t sequence,
                                  std::span<const std::string_view> pieces) {
  for (;;) {
    if (input_broken_ || in_->closed()) co_return false;
    switch (input_ ? input_->append(sequence, pieces) : in_->append(sequence, pieces)) {
      case journal::Appended::written:
      case journal::Appended::already_written:
        co_return true;
      case journal::Appended::closed:
        co_return false;
      case journal::Appended::busy:
        co_await input_moved_.wait();
    }
  }
}

Task<bool> ProcessStreams::write_terminal(std::string bytes) {
  if (!ends_.terminal) co_return false;
  asio::posix::stream_descriptor terminal(
      context_.executor, duplicate(ends_.terminal.get(), "stream of a process").release());
  std::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t written = ::write(terminal.native_handle(), left.data(), left.size());
    if (written >= 0) {
      left.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      co_await terminal.async_wait(asio::posix::stream_descriptor::wait_write, asio::use_awaitable);
    } else if (errno != EINTR) {
      co_return false;
    }
  }
  co_return true;
}

void ProcessStreams::close_input() {
  if (!in_ || in_->closed()) return;
  if (input_) {
    input_->close();
  } else {
    in_->close();
  }
}

void ProcessStreams::resize(backend::TerminalSize size) {
  if (!ends_.terminal) return;
  const winsize wanted{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
  check_syscall("terminal", ::ioctl(ends_.terminal.get(), TIOCSWINSZ, &wanted));
}

}  // namespace caisson::session
