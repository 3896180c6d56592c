#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "model/managed_process.h"
#include "model/timestamp.h"

namespace caisson::session {

// How a process ended. Without a code or a signal: nobody saw it, for its box ended with it, or it
// could not be started again.
struct ProcessEnd {
  model::Timestamp at;
  std::optional<std::int64_t> exit_code;
  std::optional<int> signal;
  bool oom = false;  // the kernel killed it, or one of its own, for memory
  std::int64_t cpu_us = 0;
  std::uint64_t peak_memory_bytes = 0;
  std::string reason;  // when there is neither a code nor a signal
  bool operator==(const ProcessEnd&) const = default;
};

// Both output streams end before these. Told to the keeper ahead of the bytes, a piece at a time:
// if the files of a stream are lost, it goes on here, and no offset means two things.
struct ReservedOffsets {
  std::uint64_t out = 0;
  std::uint64_t err = 0;
  bool operator==(const ReservedOffsets&) const = default;
};

enum class ProcessPhase {
  starting,  // nobody knows whether it was
  running,
  waiting,  // to be started again
  ended,
};

// What the keeper holds of a process, besides its descriptors.
struct KeptProcess {
  std::string session_id;
  model::ManagedProcessSpec spec;
  std::string directory;  // the name of that with its streams
  ProcessPhase phase = ProcessPhase::starting;
  std::uint64_t id = 0;  // in its box
  std::int64_t pid = 0;
  model::Timestamp started_at;  // the first time
  std::uint64_t restarts = 0;
  std::optional<ProcessEnd> end;  // the last one
  ReservedOffsets reserved;
  bool operator==(const KeptProcess&) const = default;
};

std::string kept_process_name(const std::string& directory);
bool is_kept_process(const std::string& name);

std::string to_text(const KeptProcess& process);
// Throws protocol_error, also on what a newer version wrote.
KeptProcess read_kept_process(const std::string& text);

}  // namespace caisson::session
