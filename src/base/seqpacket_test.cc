#include "base/seqpacket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace caisson {
namespace {

std::ptrdiff_t open_descriptors() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

// Sends past send_packet's own checks, as a hostile peer would.
void send_raw(int socket, std::string_view data, std::span<const int> fds) {
  iovec vector{const_cast<char*>(data.data()), data.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 253)> control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* message = CMSG_FIRSTHDR(&header);
  message->cmsg_level = SOL_SOCKET;
  message->cmsg_type = SCM_RIGHTS;
  message->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(message), fds.data(), fds.size_bytes());
  ASSERT_EQ(::sendmsg(socket, &header, 0), static_cast<ssize_t>(data.size()));
}

TEST(Seqpacket, KeepsTheBoundariesOfMessages) {
  auto [left, right] = seqpacket_pair();
  send_packet(left.get(), "one");
  send_packet(left.get(), std::string("t\0o", 3));
  EXPECT_EQ(receive_packet(right.get())->data, "one");
  EXPECT_EQ(receive_packet(right.get())->data, std::string("t\0o", 3));
}

TEST(Seqpacket, CarriesAMessageOfTheFullSize) {
  auto [left, right] = seqpacket_pair();
  const std::string full(kMaxPacketBytes, 'x');
  send_packet(left.get(), full);
  EXPECT_EQ(receive_packet(right.get())->data, full);
}

TEST(Seqpacket, CarriesDescriptorsThatWorkAndCloseOnExec) {
  auto [left, right] = seqpacket_pair();
  auto [read_end, write_end] = make_pipe();
  const std::array<int, 1> fds{write_end.get()};
  send_packet(left.get(), "a pipe", fds);
  write_end.reset();
  std::optional<Packet> packet = receive_packet(right.get());
  ASSERT_TRUE(packet.has_value());
  ASSERT_EQ(packet->fds.size(), 1u);
  EXPECT_EQ(::fcntl(packet->fds[0].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  write_all(packet->fds[0].get(), "through it", "pipe");
  packet.reset();
  EXPECT_EQ(read_all(read_end.get(), "pipe"), "through it");
}

TEST(Seqpacket, CarriesAsManyDescriptorsAsItPromises) {
  auto [left, right] = seqpacket_pair();
  const std::vector<int> fds(kMaxPacketFds, left.get());
  send_packet(left.get(), "many", fds);
  EXPECT_EQ(receive_packet(right.get())->fds.size(), kMaxPacketFds);
}

TEST(Seqpacket, RefusesToSendWhatTheOtherSideWouldRefuse) {
  auto [left, right] = seqpacket_pair();
  EXPECT_THROW(send_packet(left.get(), std::string(kMaxPacketBytes + 1, 'x')), Error);
  const std::vector<int> fds(kMaxPacketFds + 1, left.get());
  EXPECT_THROW(send_packet(left.get(), "many", fds), Error);
  EXPECT_THROW(send_packet(left.get(), ""), Error) << "it would read as the end";
  set_nonblocking(right.get());
  EXPECT_FALSE(poll_packet(right.get()).packet.has_value());
}

TEST(Seqpacket, TellsTheEndOfThePeer) {
  auto [left, right] = seqpacket_pair();
  send_packet(left.get(), "last");
  left.reset();
  EXPECT_EQ(receive_packet(right.get())->data, "last");
  EXPECT_FALSE(receive_packet(right.get()).has_value());
  EXPECT_TRUE(poll_packet(right.get()).closed);
  EXPECT_THROW(send_packet(right.get(), "to nobody"), SystemError);
}

TEST(Seqpacket, TellsNothingNowFromTheEnd) {
  auto [left, right] = seqpacket_pair();
  set_nonblocking(right.get());
  const PolledPacket polled = poll_packet(right.get());
  EXPECT_FALSE(polled.packet.has_value());
  EXPECT_FALSE(polled.closed);
  EXPECT_THROW(receive_packet(right.get()), SystemError);
}

TEST(Seqpacket, RefusesWhatIsTooLongAndKeepsNoneOfItsDescriptors) {
  auto [left, right] = seqpacket_pair();
  const std::ptrdiff_t before = open_descriptors();
  const std::array<int, 1> one{left.get()};
  send_raw(left.get(), std::string(kMaxPacketBytes + 1, 'x'), one);
  try {
    receive_packet(right.get());
    FAIL() << "it was received";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::protocol_error);
  }
  const std::vector<int> many(kMaxPacketFds + 1, left.get());
  send_raw(left.get(), "x", many);
  EXPECT_THROW(receive_packet(right.get()), Error);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Seqpacket, KeepsNoDescriptorsOfAnEmptyMessage) {
  auto [left, right] = seqpacket_pair();
  const std::ptrdiff_t before = open_descriptors();
  const std::array<int, 2> fds{left.get(), right.get()};
  send_raw(left.get(), "", fds);
  EXPECT_TRUE(poll_packet(right.get()).closed);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace caisson
