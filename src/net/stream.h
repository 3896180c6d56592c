#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "async/event.h"
#include "async/task.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "net/budget.h"

namespace caisson::net {

// A connected socket with the one flat buffer that everything is read into. Waits end at
// `deadline`; the owner looks after it and calls expire(), because one coarse timer for many
// streams costs no system call per request.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // Always held by a shared_ptr: a wait that is cancelled still ends later. Without a share the
  // memory that is kept for the peer is not counted.
  Stream(Socket socket, std::size_t capacity, std::shared_ptr<Share> share = nullptr);

  Deadline deadline = Deadline::max();

  std::string_view buffered() const { return {buffer_.get() + begin_, end_ - begin_}; }
  bool full() const { return end_ - begin_ == capacity_; }
  void consume(std::size_t bytes);

  // Waits for more bytes behind those that are buffered. False: the peer has closed, the deadline
  // has passed or the connection has failed.
  Task<bool> fill();
  // Waits for bytes when none are buffered, and puts as many as fit elsewhere; those behind them
  // are buffered. Returns how many are in `room`; 0 where fill() is false.
  Task<std::size_t> read_into(std::span<char> room);
  // Writes all pieces, in one system call where the peer keeps up. The deadline is moved on by
  // `patience` with every byte that the peer takes, and left alone without one. What does not go
  // out at once is charged to `waiting`, if given. False as above, and when there is no room for
  // it.
  Task<bool> write(std::span<const std::string_view> pieces,
                   std::optional<Clock::duration> patience, Charge* waiting = nullptr);
  // Writes what fits without waiting, and returns how much.
  std::size_t write_now(std::string_view bytes);
  std::uint64_t written() const { return written_; }  // since the beginning
  std::size_t queued();  // what the peer's system has not taken yet, of what was written

  // Ends what the stream waits for, now and from now on.
  void expire();
  bool at_end() const { return at_end_; }  // the peer has closed; what it sent may be unread
  bool expired() const { return expired_; }
  // To be called after the last answer: closing a socket with unread bytes resets the connection,
  // and the answer may be lost with it. So the peer is told that nothing more comes, and what it
  // still sends is dropped until it closes, pauses for longer than `patience` or sends too much.
  Task<void> linger(Clock::duration patience);
  void shutdown_write();
  void close();

  // Happens when the peer closes, also while nobody reads. Bytes that come before are buffered.
  const Event& ended();
  // Whether a connection that nobody reads from has been closed, or has bytes nobody asked for.
  bool stale();
  // Whether the peer will send nothing beyond what has come, although nobody has read it.
  bool peer_left();

  Socket& socket() { return socket_; }
  const std::shared_ptr<Share>& share() const { return share_; }
  std::size_t capacity() const { return capacity_; }

 private:
  std::size_t make_room();
  void watch();
  void unwatch();
  void on_readable();
  void set_ended();

  Socket socket_;
  std::size_t capacity_;
  std::shared_ptr<Share> share_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t written_ = 0;
  bool at_end_ = false;
  bool expired_ = false;
  std::optional<Event> ended_;
  bool watching_ = false;
  unsigned watch_number_ = 0;
  boost::asio::cancellation_signal watch_cancel_;
};

}  // namespace caisson::net
