#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// The messages between whoever owns a box and the guest in it, one SOCK_SEQPACKET packet each.
// docs/guest-protocol.md describes the conversation; this file is the format.
namespace caisson::wire {

inline constexpr std::uint32_t kGuestProtocolVersion = 3;

// Messages above this travel in a memory file (Indirect), up to the second limit.
inline constexpr std::size_t kMaxInlineBytes = 64u << 10;
inline constexpr std::size_t kMaxIndirectBytes = 32u << 20;

// ---- owner to guest ----

// A program gets at most so many descriptors.
inline constexpr std::size_t kMaxStartFds = 8;

// The size of a terminal, in characters.
struct TerminalSize {
  std::uint16_t rows = 0;
  std::uint16_t columns = 0;
  bool operator==(const TerminalSize&) const = default;
};

// Start a program. Its descriptors travel along, from 0 on: standard input, output and error, and
// whatever else it was promised; none of them when it gets a terminal. Behind them, `cgroups` files
// to enter beside those of the box.
struct Start {
  std::uint64_t id = 0;  // chosen by the owner, names the process from now on
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string cwd;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  bool report_start = true;  // false: no Started; StartFailed or Exited is the only answer
  bool remember = false;     // how it ended is kept until Forget: its owner may change meanwhile
  std::uint64_t after = 0;   // not before this process has ended; 0: at once
  std::uint32_t cgroups = 0;
  std::optional<TerminalSize> terminal;  // its master travels back with Started
  bool operator==(const Start&) const = default;
};

struct Signal {
  std::uint64_t id = 0;
  std::int32_t signal_number = 0;
  bool group = false;  // the whole process group, also after its leader has ended
  bool operator==(const Signal&) const = default;
};

// End every process, then the guest itself: SIGTERM, up to `grace_ms`, SIGKILL.
struct End {
  std::uint32_t grace_ms = 0;
  bool operator==(const End&) const = default;
};

struct Ping {
  std::uint64_t token = 0;
  bool operator==(const Ping&) const = default;
};

// The network namespace that NetworkHandover showed is configured.
struct NetworkReady {
  bool operator==(const NetworkReady&) const = default;
};

// Tell all processes: for an owner that takes over from another one.
struct ListProcesses {
  bool operator==(const ListProcesses&) const = default;
};

// The end of a remembered process has been noted.
struct Forget {
  std::uint64_t id = 0;
  bool operator==(const Forget&) const = default;
};

// The first descriptor is a memory file that holds the real message of `size` bytes; the
// descriptors after it belong to that message.
struct Indirect {
  std::uint64_t size = 0;
  bool operator==(const Indirect&) const = default;
};

// ---- guest to owner ----

// What the guest proved from inside, through a probe that took the same way as every payload.
enum class Proof : std::uint8_t {
  user_namespace,
  mount_namespace,
  pid_namespace,
  ipc_namespace,
  uts_namespace,
  cgroup_namespace,
  network_namespace,
  capabilities,
  seccomp,
  proc_masks,
  bounded_storage,
  cgroup_membership,
  guest_protection,
  own_inodes,
};
inline constexpr std::uint8_t kProofCount = 14;

struct ProofResult {
  Proof proof = Proof::user_namespace;
  bool holds = false;
  std::string detail;  // why not; empty when it holds
  bool operator==(const ProofResult&) const = default;
};

// The box is set up and takes commands.
struct Ready {
  std::uint32_t version = kGuestProtocolVersion;
  std::vector<ProofResult> proofs;
  bool operator==(const Ready&) const = default;
};

// The box could not be set up; the process that would have been the guest is about to exit.
struct SetupFailed {
  std::string step;
  std::int32_t error_number = 0;
  bool operator==(const SetupFailed&) const = default;
};

// Two descriptors travel along: the box's network namespace and a netlink socket inside it. The box
// waits for NetworkReady.
struct NetworkHandover {
  bool operator==(const NetworkHandover&) const = default;
};

// A descriptor travels along: the box's mount namespace.
struct MountsHandover {
  bool operator==(const MountsHandover&) const = default;
};

struct Started {
  std::uint64_t id = 0;
  std::int32_t pid = 0;  // inside the box
  bool operator==(const Started&) const = default;
};

enum class StartStep : std::uint8_t {
  request,
  fork,
  cgroup,
  descriptors,
  identity,
  directory,
  execute
};
inline constexpr std::uint8_t kStartStepCount = 7;

struct StartFailed {
  std::uint64_t id = 0;
  StartStep step = StartStep::request;
  std::int32_t error_number = 0;
  bool operator==(const StartFailed&) const = default;
};

struct Exited {
  std::uint64_t id = 0;
  std::int32_t status = 0;  // as of waitpid(2)
  std::uint64_t user_us = 0;
  std::uint64_t system_us = 0;
  std::uint64_t peak_memory_bytes = 0;
  std::uint64_t ended_us = 0;  // by the host's CLOCK_BOOTTIME: it may be told much later
  bool operator==(const Exited&) const = default;
};

struct Pong {
  std::uint64_t token = 0;
  bool operator==(const Pong&) const = default;
};

struct RunningProcess {
  std::uint64_t id = 0;
  std::int32_t pid = 0;
  bool remember = false;  // as in its Start
  bool operator==(const RunningProcess&) const = default;
};

// What was started and has not ended, and the remembered ends. The owner's next id is to be above
// the last one.
struct Processes {
  std::uint64_t last_id = 0;
  std::vector<RunningProcess> running;
  std::vector<Exited> ended;
  bool operator==(const Processes&) const = default;
};

using OwnerMessage =
    std::variant<Start, Signal, End, Ping, NetworkReady, Indirect, ListProcesses, Forget>;
using GuestMessage = std::variant<Ready, SetupFailed, NetworkHandover, Started, StartFailed, Exited,
                                  Pong, Processes, MountsHandover>;

std::string encode(const OwnerMessage& message);
std::string encode(const GuestMessage& message);

// Throw protocol_error on anything that encode() would not have produced.
OwnerMessage decode_owner_message(std::string_view data);
GuestMessage decode_guest_message(std::string_view data);

}  // namespace caisson::wire
