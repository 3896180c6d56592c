#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// A plan is data: the steps that turn a fresh process into a box, in order. The backend decides and
// writes plans; the launcher applies them without a decision of its own. Paths named `target` are
// inside the root being built; a `fd` is an index into the descriptors that travel with the plan.
namespace caisson::wire {

using FdIndex = std::uint32_t;
inline constexpr FdIndex kNoFd = 0xffffffff;

enum MountFlag : std::uint32_t {
  kReadOnly = 1,
  kNoSuid = 2,
  kNoDev = 4,
  kNoExec = 8,
};

// Enter these cgroups by writing "0" to files of theirs that are open for it.
struct EnterCgroups {
  std::vector<FdIndex> fds;
  bool operator==(const EnterCgroups&) const = default;
};
struct NewCgroupNamespace {
  bool operator==(const NewCgroupNamespace&) const = default;
};
struct BringLoopbackUp {
  bool operator==(const BringLoopbackUp&) const = default;
};
// Show the network namespace to the owner and wait until it has been configured.
struct HandOverNetwork {
  bool operator==(const HandOverNetwork&) const = default;
};
// Show the mount namespace to the owner, who may then show more in it: an ordinary user has no
// other way to it once privileges are dropped.
struct HandOverMounts {
  bool operator==(const HandOverMounts&) const = default;
};
struct SetHostname {
  std::string name;
  bool operator==(const SetHostname&) const = default;
};

// A tmpfs becomes the root being built; PivotRoot makes it the root. Without this step targets are
// in the root the launcher lives in.
struct NewRoot {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  std::uint32_t owner = 0;
  bool operator==(const NewRoot&) const = default;
};
// As NewRoot, with a directory tree of the host as the root.
struct BindRoot {
  std::string source;
  std::uint32_t flags = 0;
  FdIndex idmap = kNoFd;
  bool operator==(const BindRoot&) const = default;
};
struct MakeDirectory {
  std::string target;
  std::uint32_t mode = 0755;
  std::uint32_t owner = 0;
  bool operator==(const MakeDirectory&) const = default;
};
struct MakeSymlink {
  std::string content;
  std::string target;
  bool operator==(const MakeSymlink&) const = default;
};
struct MakeFile {
  std::string target;
  std::uint32_t mode = 0644;
  std::string content;
  bool operator==(const MakeFile&) const = default;
};

// Bind a path of the host. Only before PivotRoot, or below a kept host root. With an expected inode
// the source must be just that directory or file, or the step fails: nothing can be swapped in
// between.
struct BindHost {
  std::string source;
  std::string target;
  std::uint32_t flags = 0;
  FdIndex idmap = kNoFd;        // user namespace whose maps translate owners
  bool idmap_optional = false;  // owners are cosmetic here: a file system that cannot, need not
  std::uint64_t expected_device = 0;
  std::uint64_t expected_inode = 0;
  bool operator==(const BindHost&) const = default;
};
// Bind something of the launcher's root into the root being built.
struct BindTemplate {
  std::string source;
  std::string target;
  std::uint32_t flags = 0;
  bool operator==(const BindTemplate&) const = default;
};
// Bind one path of the root being built at another.
struct BindInside {
  std::string source;
  std::string target;
  std::uint32_t flags = 0;
  bool operator==(const BindInside&) const = default;
};
// A small tmpfs at `target`, for what an image does not bring.
struct MakeTmpfs {
  std::string target;
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  std::uint32_t mode = 0755;
  std::uint32_t owner = 0;
  bool operator==(const MakeTmpfs&) const = default;
};
// Attach a mount that the owner prepared.
struct AttachMount {
  FdIndex fd = kNoFd;
  std::string target;
  bool operator==(const AttachMount&) const = default;
};

// The one writable file system of a box, bounded in bytes and inodes. After NewRoot this step is
// absent: the new root is the scratch file system.
struct MakeScratch {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  bool operator==(const MakeScratch&) const = default;
};
// A directory of the scratch file system, mounted at `target`.
struct BindScratch {
  std::string name;
  std::string target;
  std::uint32_t mode = 0755;
  std::uint32_t owner = 0;
  std::uint32_t flags = 0;
  bool operator==(const BindScratch&) const = default;
};
// A writable layer, kept in the scratch file system, over a read-only tree: a mount that the owner
// prepared or, with kNoFd, a path of a kept host root. With target "/" the result becomes the root.
struct MountOverlay {
  FdIndex lower = kNoFd;
  std::string source;
  std::string target;
  std::uint32_t owner = 0;
  bool for_ordinary_user = false;  // trusted.* attributes need privilege: use user.* ones
  bool operator==(const MountOverlay&) const = default;
};

struct MountProc {
  std::string target;
  bool operator==(const MountProc&) const = default;
};
struct MountTerminals {
  std::string target;
  std::uint32_t group = 0;
  bool operator==(const MountTerminals&) const = default;
};
// Hide a file or directory if it exists.
struct MaskPath {
  std::string target;
  bool operator==(const MaskPath&) const = default;
};
struct MakeReadOnly {
  std::string target;
  bool operator==(const MakeReadOnly&) const = default;
};
struct PivotRoot {
  std::string
      keep_host_at;  // where the old root stays reachable for later BindHost steps; empty: nowhere
  bool operator==(const PivotRoot&) const = default;
};
struct Unmount {
  std::string target;
  bool operator==(const Unmount&) const = default;
};

struct EnterUserNamespace {
  FdIndex fd = kNoFd;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  bool operator==(const EnterUserNamespace&) const = default;
};
struct SetResourceLimit {
  std::uint32_t resource = 0;
  std::uint64_t value = 0;
  bool operator==(const SetResourceLimit&) const = default;
};
// Empty bounding set, no_new_privs, and only what the guest needs to start and end processes kept.
struct DropPrivileges {
  bool operator==(const DropPrivileges&) const = default;
};
// A classic BPF program, as seccomp(2) takes it. The name is what its failure is reported under.
inline constexpr char kInstallFilterStep[] = "install the system call filter";
struct InstallFilter {
  std::string program;
  bool operator==(const InstallFilter&) const = default;
};

// Directories of the launcher's root once more, each through a read-only overlay: the files are the
// same, but their inodes are the box's own. Its watches and locks do not meet those of others then.
struct OwnInodes {
  std::vector<std::string> paths;  // those inside others after them
  std::vector<std::string> files;  // bound over these again: an overlay shows no mounts
  bool optional = false;           // where it cannot be done it is left, and the proof tells
  bool operator==(const OwnInodes&) const = default;
};

using Step = std::variant<EnterCgroups, NewCgroupNamespace, BringLoopbackUp, HandOverNetwork,
                          SetHostname, NewRoot, BindRoot, MakeDirectory, MakeSymlink, MakeFile,
                          BindHost, BindTemplate, BindInside, MakeTmpfs, AttachMount, MakeScratch,
                          BindScratch, MountOverlay, MountProc, MountTerminals, MaskPath,
                          MakeReadOnly, PivotRoot, Unmount, EnterUserNamespace, SetResourceLimit,
                          DropPrivileges, InstallFilter, OwnInodes, HandOverMounts>;

using Plan = std::vector<Step>;

// What a box's guest needs to know to start payloads and to prove the box.
struct GuestSettings {
  std::vector<FdIndex> cgroups;  // every payload enters these
  std::uint32_t payload_uid = 0;
  std::uint32_t payload_gid = 0;
  std::uint32_t payload_outside_uid = 0;        // what the uid has to be in the namespace above
  std::vector<std::uint8_t> proofs;             // Proof values to check, see wire/guest.h
  std::vector<std::uint64_t> host_namespaces;   // inodes: user mnt pid ipc uts cgroup net
  std::vector<std::string> cgroup_controllers;  // whose membership is proven
  std::vector<std::string> masked_paths;        // nothing shows through these, and
  std::vector<std::string> read_only_paths;     // these cannot be written: proc_masks
  std::string scratch_path;                     // where bounded_storage is proven
  std::uint64_t scratch_bytes = 0;
  bool read_only_root = true;
  bool network_off = true;
  std::vector<std::string> own_inode_paths;  // directories that are overlays: own_inodes
  bool operator==(const GuestSettings&) const = default;
};

// One line for people: "bind /usr at /usr (ro,nosuid,nodev)".
std::string describe(const Step& step);

}  // namespace caisson::wire
