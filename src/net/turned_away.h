#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <unordered_set>
#include <utility>

#include "async/task.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "net/stream.h"

namespace caisson::net {

// A socket of ours for Asio.
Stream::Socket make_socket(const boost::asio::any_io_executor& executor, UniqueFd fd);

// Clients that are not served. Each hears a whole answer that says so, and is given the time to
// read it.
class TurnedAway {
 public:
  // Asks for check() to be called every now and then.
  TurnedAway(boost::asio::any_io_executor executor, std::chrono::milliseconds patience)
      : executor_(std::move(executor)), patience_(patience) {}

  bool empty() const { return streams_.empty(); }
  // As many as can be looked after at a time.
  bool full() const;

  // Answers at once. Returns the socket, which has only to be closed.
  Task<UniqueFd> refuse(UniqueFd fd);
  // When there are too many: reads what is there and answers, but does not wait.
  static void refuse_now(UniqueFd fd);

  void check(Deadline now);
  void stop();

 private:
  Task<UniqueFd> part_with(std::shared_ptr<Stream> stream);

  boost::asio::any_io_executor executor_;
  std::chrono::milliseconds patience_;
  std::unordered_set<std::shared_ptr<Stream>> streams_;
};

}  // namespace caisson::net
