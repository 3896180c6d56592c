#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <span>
#include <string_view>

#include "async/signal.h"
#include "async/task.h"
#include "base/unique_fd.h"
#include "journal/input_log.h"

namespace caisson::journal {

// Moves what is in an input log into the process's pipe. Lives on the event loop's thread.
class InputPump {
 public:
  enum class End {
    finished,  // all that was sent before close() is in the pipe
    broken,    // nobody reads the pipe any more
  };

  // The write end of the pipe becomes non-blocking. `moved` is notified when there may be room for
  // more, and when there will never be.
  InputPump(const boost::asio::any_io_executor& executor, InputLog& log, UniqueFd pipe,
            Signal* moved = nullptr);

  // As of InputLog; the pump goes on with it.
  Appended append(std::uint64_t sequence, std::span<const std::string_view> pieces);
  Appended append(std::uint64_t sequence, std::string_view bytes) {
    return append(sequence, std::span(&bytes, 1));
  }
  void close();

  // The pipe is closed when it returns. The process sees the end of its input when every other
  // holder of the pipe's write end has closed it too. After a cancellation the pipe is still open.
  Task<End> run();

 private:
  InputLog& log_;
  Signal* moved_;
  Signal changed_;
  boost::asio::posix::stream_descriptor pipe_;
};

}  // namespace caisson::journal
