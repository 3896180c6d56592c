#include "journal/input_pump.h"

#include <fcntl.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>

#include "base/file.h"

namespace caisson::journal {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

constexpr std::size_t kAtOnce = 1u << 20;
constexpr int kPipeSize = 1 << 20;  // what an ordinary user may ask for

}  // namespace

InputPump::InputPump(const asio::any_io_executor& executor, InputLog& log, UniqueFd pipe,
                     Signal* moved)
    : log_(log), moved_(moved), changed_(executor), pipe_(executor) {
  set_nonblocking(pipe.get());
  // Refused when the user has too much in pipes already: the pipe then stays as it is.
  static_cast<void>(::fcntl(pipe.get(), F_SETPIPE_SZ, kPipeSize));
  pipe_.assign(pipe.get());
  pipe.release();
}

Appended InputPump::append(std::uint64_t sequence, std::span<const std::string_view> pieces) {
  const Appended result = log_.append(sequence, pieces);
  if (result == Appended::written) changed_.notify();
  return result;
}

void InputPump::close() {
  log_.close();
  changed_.notify();
}

Task<InputPump::End> InputPump::run() {
  for (;;) {
    const Fed fed = log_.feed(pipe_.native_handle(), kAtOnce);
    if (moved_ != nullptr) moved_->notify();
    switch (fed.state) {
      case Fed::State::more:  // other work of the loop gets its turn
        co_await asio::post(asio::use_awaitable);
        break;
      case Fed::State::full:
        co_await pipe_.async_wait(stream_descriptor::wait_write, asio::use_awaitable);
        break;
      case Fed::State::drained:
        co_await changed_.wait();
        break;
      case Fed::State::finished:
      case Fed::State::broken: {
        boost::system::error_code ignored;  // a pipe end holds nothing that closing could lose
        pipe_.close(ignored);
        co_return fed.state == Fed::State::finished ? End::finished : End::broken;
      }
    }
  }
}

}  // namespace caisson::journal
