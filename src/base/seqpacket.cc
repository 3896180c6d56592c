#include "base/seqpacket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace caisson {

std::pair<UniqueFd, UniqueFd> seqpacket_pair() {
  int ends[2];
  check_syscall("socketpair", ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void send_packet(int socket, std::string_view data, std::span<const int> fds) {
  if (data.empty()) throw Error(ErrorCode::internal_error, "an empty packet reads as the end");
  if (data.size() > kMaxPacketBytes || fds.size() > kMaxPacketFds) {
    throw Error(ErrorCode::internal_error, "packet over the limits of the socket protocol");
  }
  iovec vector{const_cast<char*>(data.data()), data.size()};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
  if (!fds.empty()) {
    std::memset(control, 0, sizeof control);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(message), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  check_syscall("send on the control socket", sent);
}

namespace {

// Takes ownership of every descriptor in the control data, also when the message is then refused.
std::vector<UniqueFd> take_fds(msghdr& header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* message = CMSG_FIRSTHDR(&header); message != nullptr;
       message = CMSG_NXTHDR(&header, message)) {
    if (message->cmsg_level != SOL_SOCKET || message->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (message->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(message) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

PolledPacket poll_packet(int socket) {
  // One buffer a thread: a packet is read into it and copied out at its real size.
  static thread_local char buffer[kMaxPacketBytes];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
  iovec vector{buffer, sizeof buffer};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
  if (got < 0 && errno == ECONNRESET) return {.packet = std::nullopt, .closed = true};
  check_syscall("receive on the control socket", got);
  std::vector<UniqueFd> fds = take_fds(header);
  if (got == 0) return {.packet = std::nullopt, .closed = true};
  Packet packet{.data = std::string(buffer, static_cast<std::size_t>(got)), .fds = std::move(fds)};
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    throw Error(ErrorCode::protocol_error, "packet over the limits of the socket protocol");
  }
  return {.packet = std::move(packet), .closed = false};
}

std::optional<Packet> receive_packet(int socket) {
  PolledPacket polled = poll_packet(socket);
  if (!polled.packet && !polled.closed) {
    throw SystemError("receive on the control socket", EAGAIN);
  }
  return std::move(polled.packet);
}

}  // namespace caisson
