#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

// The messages between an owner of boxes and its keeper: a process that holds descriptors, and a
// few bytes with each, for the owner that comes after this one.
namespace caisson::wire {

inline constexpr std::uint32_t kKeeperProtocolVersion = 1;
inline constexpr std::size_t kMaxKeptBytes = 96u << 10;
inline constexpr const char* kKeeperSocketName = "keeper.sock";  // in the owner's directory
inline constexpr int kKeeperBacklog = 8;

// Hold the packet's descriptors under this name, instead of what was held under it.
struct Keep {
  std::string name;
  std::string data;
  bool operator==(const Keep&) const = default;
};

struct Drop {
  std::string name;
  bool operator==(const Drop&) const = default;
};

// Answered by one Kept for each name, with copies of its descriptors, and a KeptAll.
struct TellAll {
  bool operator==(const TellAll&) const = default;
};

// Let go of everything and end.
struct Quit {
  bool operator==(const Quit&) const = default;
};

struct Kept {
  std::string name;
  std::string data;
  bool operator==(const Kept&) const = default;
};

struct KeptAll {
  std::uint32_t version = kKeeperProtocolVersion;
  std::int32_t pid = 0;  // the keeper's
  bool operator==(const KeptAll&) const = default;
};

using KeeperRequest = std::variant<Keep, Drop, TellAll, Quit>;
using KeeperReply = std::variant<Kept, KeptAll>;

// The decoders throw protocol_error on anything that encode() would not have produced.
std::string encode(const KeeperRequest& request);
std::string encode(const KeeperReply& reply);
KeeperRequest decode_keeper_request(std::string_view data);
KeeperReply decode_keeper_reply(std::string_view data);

}  // namespace caisson::wire
