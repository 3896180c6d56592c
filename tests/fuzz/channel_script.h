#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What a hostile guest does to a channel, as bytes: the input of fuzz_guest_channel.
//
//   byte 0      bits 0 to 2: how many processes the owner expects, with ids from 0; those with an
//               odd id end without having been announced
//               bit 5: those that are announced get a terminal
//               bit 6: the owner takes the box over from another one, and expects none
//               bit 7: the box is being set up; the owner receives packet by packet
//   then, again and again:
//     byte      bits 0 to 1: descriptors that travel along (3: more than a packet may hold)
//               bit 7: the owner's loop turns before the next packet
//     2 bytes   length, little-endian; what is missing at the end is cut off
//     bytes     the packet
namespace caisson::fuzz {

struct ScriptedPacket {
  unsigned descriptors = 0;
  bool turn_after = false;
  std::string data;
};

struct ChannelScript {
  unsigned processes = 0;
  bool terminals = false;
  bool taking_over = false;
  bool setting_up = false;
  std::vector<ScriptedPacket> packets;
};

inline ChannelScript read_script(std::string_view input) {
  ChannelScript script;
  if (input.empty()) return script;
  const auto byte = [&input](std::size_t at) { return static_cast<unsigned char>(input[at]); };
  script.processes = byte(0) & 7u;
  script.terminals = (byte(0) & 0x20u) != 0;
  script.taking_over = (byte(0) & 0x40u) != 0;
  script.setting_up = (byte(0) & 0x80u) != 0;
  input.remove_prefix(1);
  while (input.size() >= 3) {
    const std::size_t length = byte(1) | static_cast<std::size_t>(byte(2)) << 8;
    script.packets.push_back({.descriptors = byte(0) & 3u,
                              .turn_after = (byte(0) & 0x80u) != 0,
                              .data = std::string(input.substr(3, length))});
    input.remove_prefix(3 + script.packets.back().data.size());
  }
  return script;
}

inline std::string write_script(const ChannelScript& script) {
  std::string bytes(
      1, static_cast<char>(script.processes | (script.terminals ? 0x20u : 0u) |
                           (script.taking_over ? 0x40u : 0u) | (script.setting_up ? 0x80u : 0u)));
  for (const ScriptedPacket& packet : script.packets) {
    bytes.push_back(static_cast<char>(packet.descriptors | (packet.turn_after ? 0x80u : 0u)));
    bytes.push_back(static_cast<char>(packet.data.size() & 0xff));
    bytes.push_back(static_cast<char>(packet.data.size() >> 8 & 0xff));
    bytes += packet.data;
  }
  return bytes;
}

}  // namespace caisson::fuzz
