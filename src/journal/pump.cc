#include "journal/pump.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "base/file.h"
#include "base/log.h"

namespace caisson::journal {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

constexpr std::size_t kOnLoop = 64u << 10;     // at once, and in a row
constexpr std::size_t kOnThread = 4u << 20;    // then followers hear of it
constexpr std::uint64_t kPipeSize = 1u << 20;  // what an ordinary user may ask for

}  // namespace

Pump::Pump(const asio::any_io_executor& executor, Disk& disk, Feed& feed, UniqueFd source,
           std::optional<Through> through, PumpOptions options)
    : disk_(disk),
      feed_(feed),
      source_(executor),
      through_(std::move(through)),
      options_(std::move(options)) {
  set_nonblocking(source.get());
  // Refused when the user has too much in pipes already: the pipe then stays as it is.
  const std::uint64_t size = std::min(kPipeSize, Journal::slack(feed.journal().limits()));
  if (!through_) static_cast<void>(::fcntl(source.get(), F_SETPIPE_SZ, static_cast<int>(size)));
  source_.assign(source.get());
  source.release();
}

Drained Pump::drain(std::size_t at_most) {
  Journal& journal = feed_.journal();
  if (!through_) return journal.drain(source_.native_handle(), at_most);
  const TerminalSource terminal{.master = source_.native_handle(),
                                .through_read = through_->read.get(),
                                .through_write = through_->write.get()};
  return journal.drain_terminal(terminal, at_most);
}

Task<Drained> Pump::take() {
  const bool flood = in_a_row_ >= kOnLoop;
  const Drained drained = co_await disk_.run(flood, [this, at_most = flood ? kOnThread : kOnLoop] {
    const Drained moved = drain(at_most);
    feed_.journal().index();
    return moved;
  });
  if (drained.bytes > 0) feed_.announce();
  in_a_row_ += drained.bytes;
  if (drained.state == Drained::State::empty) in_a_row_ = 0;
  co_return drained;
}

void Pump::report(const Error& error) {
  if (std::exchange(troubled_, true)) return;
  if (options_.on_trouble) return options_.on_trouble(error);
  log::error("output cannot be stored", "journal", feed_.journal().path().native(), "error",
             error.what());
}

Task<void> Pump::run() {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    std::optional<Drained> drained;
    try {
      drained = co_await take();
    } catch (const Error& error) {
      report(error);
    }
    if (!drained) {
      feed_.announce();  // of what may have moved before the trouble
      timer.expires_after(options_.retry);
      co_await timer.async_wait(asio::use_awaitable);
      continue;
    }
    if (drained->bytes > 0) troubled_ = false;
    if (drained->bytes > 0 && options_.on_move) options_.on_move();
    switch (drained->state) {
      case Drained::State::more:
        break;
      case Drained::State::empty:
        co_await source_.async_wait(stream_descriptor::wait_read, asio::use_awaitable);
        break;
      case Drained::State::held:  // unless there was a release while a thread was at work
        while (feed_.journal().full()) co_await feed_.released();
        break;
      case Drained::State::ended:
        if (options_.closes) feed_.journal().mark_closed();
        feed_.announce();
        co_return;
    }
  }
}

}  // namespace caisson::journal
