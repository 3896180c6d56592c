#include "net/stream.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

namespace caisson::net {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kMaxPieces = 4;
constexpr int kMostPatience = 30;
constexpr std::size_t kMaxLingerBytes = 32u << 20;  // more than a body that is not streamed
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

// The part of `pieces` that is not written yet.
struct Unwritten {
  explicit Unwritten(std::span<const std::string_view> pieces) {
    for (const std::string_view piece : pieces) {
      if (piece.empty()) continue;
      vectors[count++] = {const_cast<char*>(piece.data()), piece.size()};
    }
  }
  bool empty() const { return first == count; }
  void advance(std::size_t bytes) {
    while (bytes > 0) {
      iovec& vector = vectors[first];
      const std::size_t taken = std::min(bytes, vector.iov_len);
      vector.iov_base = static_cast<char*>(vector.iov_base) + taken;
      vector.iov_len -= taken;
      bytes -= taken;
      if (vector.iov_len == 0) ++first;
    }
  }
  ssize_t send(int fd) {
    msghdr message{};
    message.msg_iov = vectors.data() + first;
    message.msg_iovlen = count - first;
    return ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  std::array<iovec, kMaxPieces> vectors;
  std::size_t first = 0;
  std::size_t count = 0;
};

std::size_t total_size(std::span<const std::string_view> pieces) {
  std::size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size();
  return size;
}

}  // namespace

Stream::Stream(Socket socket, std::size_t capacity, std::shared_ptr<Share> share)
    : socket_(std::move(socket)),
      capacity_(capacity),
      share_(std::move(share)),
      buffer_(std::make_unique_for_overwrite<char[]>(capacity)) {}

void Stream::consume(std::size_t bytes) {
  begin_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
  if (ended_) watch();
}

// Bytes that fit behind the buffered ones, which are moved to the front when there are few.
std::size_t Stream::make_room() {
  if (begin_ > 0 && capacity_ - end_ < capacity_ / 4) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return capacity_ - end_;
}

Task<bool> Stream::fill() {
  if (at_end_ || expired_) co_return false;
  unwatch();
  const std::size_t room = make_room();
  const auto [error, bytes] =
      co_await socket_.async_read_some(asio::buffer(buffer_.get() + end_, room), kAsTuple);
  if (error) {
    set_ended();
    co_return false;
  }
  end_ += bytes;
  if (ended_) watch();
  co_return !expired_;
}

Task<std::size_t> Stream::read_into(std::span<char> room) {
  if (at_end_ || expired_) co_return 0;
  unwatch();
  const std::array<asio::mutable_buffer, 2> places = {asio::buffer(room.data(), room.size()),
                                                      asio::buffer(buffer_.get(), capacity_)};
  const auto [error, bytes] = co_await socket_.async_read_some(places, kAsTuple);
  if (error) set_ended();
  if (error || expired_) co_return 0;
  const std::size_t direct = std::min(bytes, room.size());
  end_ = bytes - direct;
  co_return direct;
}

Task<bool> Stream::write(std::span<const std::string_view> pieces,
                         std::optional<Clock::duration> patience, Charge* waiting) {
  Unwritten unwritten(pieces);
  std::optional<Share::Waiting> wait;
  while (!unwritten.empty()) {
    if (expired_ || !socket_.is_open()) co_return false;
    const ssize_t sent = unwritten.send(socket_.native_handle());
    if (sent >= 0) {
      unwritten.advance(static_cast<std::size_t>(sent));
      written_ += static_cast<std::uint64_t>(sent);
      if (wait) wait->taken(static_cast<std::size_t>(sent));
      if (unwritten.empty()) break;
    } else if (errno == EINTR) {
      continue;
    } else if (errno != EAGAIN) {
      co_return false;  // what the peer has sent before may still be read
    }
    if (!wait) {
      // All of it stays in memory until the last byte is taken.
      if (waiting != nullptr && !waiting->resize(total_size(pieces))) co_return false;
      wait.emplace(share_.get(), [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->expire();
      });
    }
    if (patience) deadline = Clock::now() + *patience;
    const auto [error] = co_await socket_.async_wait(Socket::wait_write, kAsTuple);
    if (error) co_return false;
  }
  if (patience) deadline = Deadline::max();
  co_return !expired_;
}

std::size_t Stream::write_now(std::string_view bytes) {
  if (!socket_.is_open()) return 0;
  const ssize_t sent =
      ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return 0;
  written_ += static_cast<std::uint64_t>(sent);
  return static_cast<std::size_t>(sent);
}

std::size_t Stream::queued() {
  int bytes = 0;
  // A socket that cannot tell is taken to have nothing queued; reading finds out what ails it.
  if (!socket_.is_open() || ::ioctl(socket_.native_handle(), SIOCOUTQ, &bytes) < 0) return 0;
  return static_cast<std::size_t>(bytes);
}

void Stream::expire() {
  expired_ = true;
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

Task<void> Stream::linger(Clock::duration patience) {
  shutdown_write();
  const Deadline last = Clock::now() + kMostPatience * patience;
  std::size_t dropped = 0;
  bool more = true;
  while (more && dropped <= kMaxLingerBytes) {
    dropped += buffered().size();
    consume(buffered().size());
    deadline = std::min(last, Clock::now() + patience);
    more = co_await fill();
  }
}

void Stream::shutdown_write() {
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void Stream::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  set_ended();
}

const Event& Stream::ended() {
  if (!ended_) {
    ended_.emplace(socket_.get_executor());
    if (at_end_) ended_->set();
  }
  watch();
  return *ended_;
}

bool Stream::stale() {
  if (at_end_ || expired_ || !socket_.is_open()) return true;
  char byte = 0;
  const ssize_t peeked = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return peeked >= 0 || errno != EAGAIN;
}

bool Stream::peer_left() {
  pollfd socket{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&socket, 1, 0) > 0;
}

// A full buffer is not watched: the end behind it is seen when it has been read.
void Stream::watch() {
  if (watching_ || at_end_ || make_room() == 0) return;
  watching_ = true;
  auto on_ready = [self = shared_from_this(),
                   number = ++watch_number_](const boost::system::error_code& error) {
    if (number != self->watch_number_) return;
    self->watching_ = false;
    if (!error) self->on_readable();
  };
  socket_.async_wait(Socket::wait_read,
                     asio::bind_cancellation_slot(watch_cancel_.slot(), std::move(on_ready)));
}

void Stream::unwatch() {
  if (!std::exchange(watching_, false)) return;
  ++watch_number_;
  watch_cancel_.emit(asio::cancellation_type::terminal);
}

void Stream::on_readable() {
  const std::size_t room = make_room();
  const ssize_t bytes = ::recv(socket_.native_handle(), buffer_.get() + end_, room, MSG_DONTWAIT);
  if (bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR)) return set_ended();
  if (bytes > 0) end_ += static_cast<std::size_t>(bytes);
  watch();
}

void Stream::set_ended() {
  at_end_ = true;
  unwatch();
  if (ended_) ended_->set();
}

}  // namespace caisson::net
