#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "async/task.h"
#include "backend/box.h"

namespace caisson::backend {

// One command in a box, run to its end.
struct RunRequest {
  ProcessSpec process;
  std::string input;                                 // standard input, then end of file
  std::optional<std::chrono::milliseconds> timeout;  // none: no limit
  std::size_t output_limit = 1u << 20;               // bytes kept of each stream
};

// One captured stream: the first `output_limit` bytes and an exact count of what came after.
struct CapturedStream {
  std::string data;
  std::uint64_t discarded = 0;
};

struct RunResult {
  bool timed_out = false;  // then `exit` says how the killed process ended
  ProcessExit exit;
  CapturedStream out;
  CapturedStream err;
  std::chrono::microseconds duration{0};
};

// Runs the command and collects what it writes. The result is complete when the command itself has
// ended: what it wrote before that is all there, and background processes that keep the pipes open
// do not delay it. On timeout the command's process group is killed and what it wrote is kept.
Task<RunResult> run(Box& box, RunRequest request);

// PATH, HOME, LANG and the other names every command in a box starts with, as "NAME=value".
std::vector<std::string> default_environment();

}  // namespace caisson::backend
