#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "net/frame_reader.h"

// What is said on a websocket of the subprotocol caisson.v1: docs/processes.md. Pure.
namespace caisson::cli {

inline constexpr const char* kRelayProtocol = "caisson.v1";

enum class RelayStream : char { in = 0, out = 1, err = 2 };

struct RelayHello {
  bool running = false;
  bool tty = false;
  std::uint64_t from = 0;           // the offset at which standard output begins
  std::uint64_t last_sequence = 0;  // of the input that was written
  bool operator==(const RelayHello&) const = default;
};

struct RelayOutput {
  RelayStream stream = RelayStream::out;
  std::uint64_t offset = 0;
  std::string bytes;
  bool operator==(const RelayOutput&) const = default;
};

// What is between is no longer kept.
struct RelayTruncated {
  RelayStream stream = RelayStream::out;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  bool operator==(const RelayTruncated&) const = default;
};

struct RelayInputTaken {
  std::uint64_t sequence = 0;
  bool written = false;  // false: nobody will read it, nor what follows
  bool operator==(const RelayInputTaken&) const = default;
};

// How the process ended; without a code and a signal, the reason says why that is not known.
struct RelayExit {
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool oom = false;
  std::string reason;
  bool operator==(const RelayExit&) const = default;
};

// We closed the conversation.
struct RelayLeft {
  bool operator==(const RelayLeft&) const = default;
};

using RelayEvent =
    std::variant<RelayHello, RelayOutput, RelayTruncated, RelayInputTaken, RelayExit, RelayLeft>;

// Throws protocol_error. nullopt: something that only a newer daemon knows.
std::optional<RelayEvent> read_relay_message(net::Message message);

// For whoever reads the output: which of its bytes are missing.
std::string missing_bytes(std::uint64_t from, std::uint64_t to);

std::string relay_input(std::uint64_t sequence, std::string_view bytes);
std::string relay_close_input();
std::string relay_resize(unsigned rows, unsigned columns);

}  // namespace caisson::cli
