#include "net/turned_away.h"

#include <sys/socket.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "net/connection.h"

namespace caisson::net {

namespace {

constexpr std::size_t kMost = 256;
constexpr std::size_t kBuffer = 4096;

}  // namespace

Stream::Socket make_socket(const boost::asio::any_io_executor& executor, UniqueFd fd) {
  int family = AF_UNSPEC;
  socklen_t size = sizeof family;
  check_syscall("socket", ::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &family, &size));
  Stream::Socket socket(executor);
  socket.assign(boost::asio::generic::stream_protocol(family, 0), fd.get());
  fd.release();
  return socket;
}

bool TurnedAway::full() const {
  return streams_.size() >= kMost;
}

Task<UniqueFd> TurnedAway::refuse(UniqueFd fd) {
  auto stream = std::make_shared<Stream>(make_socket(executor_, std::move(fd)), kBuffer);
  streams_.insert(stream);
  stream->write_now(busy_answer());
  return part_with(std::move(stream));
}

Task<UniqueFd> TurnedAway::part_with(std::shared_ptr<Stream> stream) {
  co_await stream->linger(patience_);
  streams_.erase(stream);
  boost::system::error_code error;
  const int released = stream->socket().release(error);
  co_return UniqueFd(error ? -1 : released);
}

void TurnedAway::refuse_now(UniqueFd fd) {
  std::array<char, kBuffer> dropped{};
  while (::recv(fd.get(), dropped.data(), dropped.size(), MSG_DONTWAIT) > 0) {
  }
  const std::string answer = busy_answer();
  // Who is not there to take it needs no answer.
  if (::send(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
  ::shutdown(fd.get(), SHUT_WR);
}

void TurnedAway::check(Deadline now) {
  for (const auto& stream : streams_) {
    if (stream->deadline <= now) stream->expire();
  }
}

void TurnedAway::stop() {
  for (const auto& stream : streams_) stream->expire();
}

}  // namespace caisson::net
