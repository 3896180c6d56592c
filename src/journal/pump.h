#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "async/task.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "journal/disk.h"
#include "journal/feed.h"

namespace caisson::journal {

// The pipe that a terminal's bytes go through, because splice(2) wants one on either side.
struct Through {
  UniqueFd read;
  UniqueFd write;
};

struct PumpOptions {
  // Wait after trouble with the storage.
  std::chrono::milliseconds retry = std::chrono::seconds(1);
  // Whether the end of this source is the end of the stream.
  bool closes = true;
  // Told of such trouble once until bytes move again; without it, it is logged.
  std::function<void(const Error&)> on_trouble;
  // Called on the loop when bytes have moved.
  std::function<void()> on_move;
};

// Moves a process's output into its journal until the end of the stream. A little is moved on the
// loop; a flood is moved on the disk's thread, for writes to files may have to wait.
class Pump {
 public:
  // The read end of a pipe, which is made as large as it may be, but not larger than the journal's
  // slack, or with `through` the master side of a terminal. Both become non-blocking.
  Pump(const boost::asio::any_io_executor& executor, Disk& disk, Feed& feed, UniqueFd source,
       std::optional<Through> through = std::nullopt, PumpOptions options = {});

  // Returns when the stream has ended and the journal is marked closed. Whoever cancels it waits
  // for it to end (TaskGroup::stop), as the disk's thread may be at work. What it has not moved
  // stays in the pipe, and a later pump goes on with it.
  Task<void> run();

 private:
  Task<Drained> take();
  Drained drain(std::size_t at_most);
  void report(const Error& error);

  Disk& disk_;
  Feed& feed_;
  boost::asio::posix::stream_descriptor source_;
  std::optional<Through> through_;
  PumpOptions options_;
  std::size_t in_a_row_ = 0;  // bytes since the source was last empty
  bool troubled_ = false;
};

}  // namespace caisson::journal
