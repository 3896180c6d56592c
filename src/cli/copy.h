#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

// The loops between a command's pipes and our own descriptors. Each blocks, on a thread of its own:
// our standard streams are shared with other programs, which a non-blocking mode would surprise,
// and a reader of ours that does not read must hold up the command, not our timers and signals.
namespace caisson::cli {

// Where output goes. False: no more is wanted, and the command finds its pipe closed.
using Sink = std::function<bool(std::string_view bytes)>;

// Passes everything on until the end of the pipe, or until the sink wants no more.
void copy_output(UniqueFd pipe, const Sink& sink);

// The next bytes, as they come; nullopt at the end, and when `stop` becomes readable. What cannot
// be read is at its end, too. Both are borrowed.
std::optional<std::string> read_piece(int from, int stop);

// Passes `from` on to the pipe until one of them ends or `stop` becomes readable. Both are
// borrowed.
void copy_input(int from, UniqueFd pipe, int stop);

// Writes to a descriptor of ours as bytes come. A reader that has gone is the end; any other
// failure is the end as well, and kept in `error`.
struct FdSink {
  int fd;
  int& error;
  bool operator()(std::string_view bytes) const;
};

// Keeps the first `limit` bytes and counts the others.
struct Capture {
  std::size_t limit = 1u << 20;
  std::string data;
  std::uint64_t discarded = 0;
  void add(std::string_view bytes);
};

}  // namespace caisson::cli
