#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "wire/guest.h"
#include "wire/keeper.h"
#include "wire/launch.h"

// At least one message of every kind, with every field away from its default, and the edges of
// fields. The tests of the wire and the seeds of the fuzzers start from these.
namespace caisson::wire::samples {

inline constexpr auto kMax32 = std::numeric_limits<std::uint32_t>::max();
inline constexpr auto kMax64 = std::numeric_limits<std::uint64_t>::max();

inline std::vector<OwnerMessage> owner_messages() {
  return {
      Start{.id = 7,
            .argv = {"/bin/sh", "-c", "echo \"$0\"; exit 3"},
            .env = {"PATH=/usr/bin:/bin", "EMPTY=", "LANG=C.UTF-8"},
            .cwd = "/workspace",
            .uid = 1000,
            .gid = 1001,
            .report_start = false,
            .remember = true,
            .after = 6,
            .cgroups = 3,
            .terminal = TerminalSize{.rows = 24, .columns = 80}},
      Start{},
      Start{.id = kMax64,
            .argv = {"", std::string("nul\0inside", 10), "\xff\xfe"},
            .env = std::vector<std::string>(40, "NAME=value"),
            .cwd = std::string(300, 'd'),
            .uid = kMax32,
            .gid = kMax32},
      Start{.id = 8, .argv = {"/bin/cat"}, .cwd = "/", .remember = true},
      Start{.id = 9, .argv = {"/bin/cat"}, .cwd = "/", .report_start = false, .after = 8},
      Start{.id = 10, .argv = {"/bin/cat"}, .cwd = "/", .after = kMax64, .cgroups = kMax32},
      Start{.id = 11, .argv = {"/bin/sh"}, .cwd = "/", .terminal = TerminalSize{}},
      Start{.id = 12,
            .argv = {"/bin/sh"},
            .cwd = "/",
            .remember = true,
            .cgroups = 1,
            .terminal = TerminalSize{.rows = 0xffff, .columns = 0xffff}},
      Signal{.id = 7, .signal_number = 15, .group = true},
      Signal{.id = kMax64, .signal_number = -1, .group = false},
      End{.grace_ms = 2500},
      End{.grace_ms = kMax32},
      Ping{.token = 0x0123456789abcdef},
      NetworkReady{},
      Indirect{.size = 200'000},
      Indirect{.size = kMax64},
      ListProcesses{},
      Forget{.id = 7},
      Forget{.id = kMax64},
  };
}

inline std::vector<GuestMessage> guest_messages() {
  std::vector<GuestMessage> messages = {
      Ready{},
      SetupFailed{.step = "bind /usr at /usr (ro,nosuid,nodev)", .error_number = 1},
      SetupFailed{.step = "", .error_number = std::numeric_limits<std::int32_t>::min()},
      NetworkHandover{},
      MountsHandover{},
      Started{.id = 7, .pid = 2},
      Started{.id = kMax64, .pid = -1},
      Exited{.id = 7,
             .status = 0x300,
             .user_us = 1'500'000,
             .system_us = 20'000,
             .peak_memory_bytes = 4u << 20,
             .ended_us = 86'400'000'000},
      Exited{.id = kMax64,
             .status = -1,
             .user_us = kMax64,
             .system_us = kMax64,
             .peak_memory_bytes = kMax64,
             .ended_us = kMax64},
      Pong{.token = 0x0123456789abcdef},
      Processes{},
      Processes{.last_id = 9,
                .running = {{.id = 7, .pid = 12, .remember = true}, {.id = kMax64, .pid = -1}},
                .ended = {{.id = 8,
                           .status = 9,
                           .user_us = 1,
                           .system_us = 2,
                           .peak_memory_bytes = 3,
                           .ended_us = 4}}},
      Processes{.last_id = 4, .running = {{.id = 1, .pid = 2}, {.id = 4, .pid = 9}}},
      Processes{.last_id = kMax64, .ended = std::vector<Exited>(3, {.id = 2, .status = 0x100})},
  };
  Ready all;
  for (std::uint8_t proof = 0; proof < kProofCount; ++proof) {
    const bool holds = proof % 2 == 0;
    all.proofs.push_back({.proof = static_cast<Proof>(proof),
                          .holds = holds,
                          .detail = holds ? "" : "there is more than the loopback device"});
  }
  messages.emplace_back(all);
  for (std::uint8_t step = 0; step < kStartStepCount; ++step) {
    messages.emplace_back(
        StartFailed{.id = 8, .step = static_cast<StartStep>(step), .error_number = 2});
  }
  return messages;
}

inline Plan steps() {
  return {
      EnterCgroups{.fds = {1, 2, kNoFd}},
      NewCgroupNamespace{},
      BringLoopbackUp{},
      HandOverNetwork{},
      HandOverMounts{},
      SetHostname{.name = "box"},
      NewRoot{.bytes = 4u << 20, .inodes = 4096, .owner = 0x70000000},
      BindRoot{.source = "/var/lib/caisson/images/a/rootfs", .flags = kReadOnly, .idmap = 3},
      MakeDirectory{.target = "/home/box", .mode = 01777, .owner = 0x70010001},
      MakeSymlink{.content = "usr/bin", .target = "/bin"},
      MakeFile{.target = "/etc/hostname", .mode = 0600, .content = "box\n"},
      BindHost{.source = "/usr",
               .target = "/usr",
               .flags = kReadOnly | kNoSuid | kNoDev,
               .idmap = 4,
               .idmap_optional = true,
               .expected_device = 66306,
               .expected_inode = kMax64},
      BindTemplate{.source = "/dev", .target = "/dev", .flags = kNoSuid | kNoExec},
      BindInside{.source = "/dev/.files/hosts", .target = "/etc/hosts", .flags = kReadOnly},
      MakeTmpfs{.target = "/dev", .bytes = 65536, .inodes = 32, .mode = 0711, .owner = 5},
      AttachMount{.fd = 6, .target = "/workspace"},
      MakeScratch{.bytes = 256u << 20, .inodes = 65536},
      BindScratch{.name = "tmp", .target = "/tmp", .mode = 01777, .owner = 9, .flags = kNoDev},
      MountOverlay{
          .lower = 7, .source = "/usr", .target = "/usr", .owner = 10, .for_ordinary_user = true},
      MountProc{.target = "/proc"},
      MountTerminals{.target = "/dev/pts", .group = 5},
      MaskPath{.target = "/proc/kcore"},
      MakeReadOnly{.target = "/proc/sys"},
      PivotRoot{.keep_host_at = "/.host"},
      Unmount{.target = "/.host"},
      EnterUserNamespace{.fd = 8, .uid = 65533, .gid = 65532},
      SetResourceLimit{.resource = 7, .value = kMax64},
      DropPrivileges{},
      InstallFilter{.program = std::string("\x06\0\0\0\0\0\xff\x7f", 8)},
      OwnInodes{.paths = {"/usr", "/usr/local"}, .files = {"/usr/lib/a.so"}, .optional = true},
  };
}

inline GuestSettings guest_settings() {
  return {.cgroups = {1, 2},
          .payload_uid = 1000,
          .payload_gid = 1001,
          .payload_outside_uid = 0x70010001,
          .proofs = {0, 1, 12},
          .host_namespaces = {4026531837, kMax64},
          .cgroup_controllers = {"memory", "pids"},
          .masked_paths = {"/proc/kcore"},
          .read_only_paths = {"/proc/sys", "/proc/irq"},
          .scratch_path = "/tmp",
          .scratch_bytes = 256u << 20,
          .read_only_root = false,
          .network_off = false,
          .own_inode_paths = {"/usr"}};
}

inline std::vector<LaunchRequest> launch_requests() {
  std::vector<LaunchRequest> requests = {
      BuildTemplate{.plan = steps(), .new_user_namespace = true},
      BuildTemplate{},
      CreateUserNamespace{.uids = {{0, 0x70000000, 1000}, {1000, 0x70010001, 1}},
                          .gids = {{kMax32, kMax32, kMax32}},
                          .account = 0x74010003},
      CreateUserNamespace{},
      LaunchBox{.new_network = false, .plan = steps()},
      LaunchBox{},
      FinishBox{.plan = steps(), .guest = guest_settings()},
      FinishBox{},
      AdoptCgroups{.names = {"caisson-0", ""}},
      IndirectLaunch{.size = 100'000},
      ShowMount{.target = "/opt/trees/a",
                .holder = "/opt/trees",
                .owner = 0x70000000,
                .replace = true,
                .source = "/srv/a",
                .read_only = false,
                .expected_device = 1,
                .expected_inode = kMax64},
      HideMount{.target = "/opt/trees/a", .holder = "/opt/trees"},
  };
  for (const Step& step : steps()) requests.emplace_back(BuildTemplate{.plan = {step, step}});
  return requests;
}

inline std::vector<LaunchReply> launch_replies() {
  return {
      Done{},
      Launched{.pid = 4711},
      Launched{.pid = -1},
      LaunchFailed{.step = "new namespaces", .error_number = 28},
      LaunchFailed{.step = std::string(2000, 's'), .error_number = -1},
  };
}

inline std::vector<KeeperRequest> keeper_requests() {
  return {
      Keep{.name = "session/a", .data = std::string("{\0}", 3)},
      Keep{},
      Keep{.name = std::string(300, 'n'), .data = std::string(1000, 'd')},
      Drop{.name = "session/a"},
      Drop{},
      TellAll{},
      Quit{},
  };
}

inline std::vector<KeeperReply> keeper_replies() {
  return {
      Kept{.name = "session/a", .data = "{}"},
      Kept{},
      KeptAll{},
      KeptAll{.version = 7, .pid = 8},
      KeptAll{.version = kMax32, .pid = std::numeric_limits<std::int32_t>::min()},
  };
}

// Whether `messages` has one of every alternative of its variant.
template <typename Variant>
bool complete(const std::vector<Variant>& messages) {
  std::vector<bool> seen(std::variant_size_v<Variant>);
  for (const Variant& message : messages) seen[message.index()] = true;
  for (const bool one : seen) {
    if (!one) return false;
  }
  return true;
}

}  // namespace caisson::wire::samples
