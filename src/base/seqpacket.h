#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace caisson {

// One message of a SOCK_SEQPACKET socket: bytes and the descriptors that travelled with them.
struct Packet {
  std::string data;
  std::vector<UniqueFd> fds;
};

inline constexpr std::size_t kMaxPacketBytes = 128u << 10;  // below every default SO_SNDBUF
inline constexpr std::size_t kMaxPacketFds = 64;

std::pair<UniqueFd, UniqueFd> seqpacket_pair();

// Sends one message, which is not empty: an empty one reads as the end. Throws SystemError when the
// peer is gone or the message does not fit. A non-blocking socket whose buffer is full gives
// EAGAIN, as for any send.
void send_packet(int socket, std::string_view data, std::span<const int> fds = {});

// Waits for one message; nullopt when the peer has closed. Truncated data or descriptors throw
// protocol_error: a peer that sends more than the limits is not to be understood by half.
std::optional<Packet> receive_packet(int socket);

// As receive_packet on a non-blocking socket: an empty `packet` and `closed == false` mean "nothing
// now".
struct PolledPacket {
  std::optional<Packet> packet;
  bool closed = false;
};
PolledPacket poll_packet(int socket);

}  // namespace caisson
