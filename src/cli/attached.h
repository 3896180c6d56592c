#pragma once
#include <cstdint>
#include <optional>

#include "async/task.h"
#include "cli/daemon_client.h"
#include "cli/process_client.h"

namespace caisson::cli {

// How our standard streams become those of a process.
struct Attachment {
  DaemonPlace daemon;
  ProcessName name;
  bool takeover = false;
  bool input = true;         // our standard input is the process's, and its end is its end
  bool detach_keys = false;  // Control-P Control-Q leaves the process alone, if it has a terminal
  std::optional<std::uint64_t> from;      // of standard output; none: where the last client left
  std::optional<std::uint64_t> err_from;  // of standard error; none: not at all
};

// Passes everything on until the process ends, and gives its exit code. SIGINT is the process's;
// SIGTERM, SIGHUP and SIGQUIT are ours, and it goes on without us, as it does when nobody reads our
// output. With a terminal on both sides ours becomes raw and the other one has its size. The client
// is not used meanwhile.
Task<int> attach(DaemonClient& client, Attachment attachment);

}  // namespace caisson::cli
