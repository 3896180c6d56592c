#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/plan.h"

// The messages between the owner of boxes and its launcher, which answers each request, in order,
// and the one with which the owner finishes a box.
namespace caisson::wire {

// A larger request travels in a memory file.
inline constexpr std::size_t kMaxPlanBytes = 96u << 10;

struct IdRange {
  std::uint32_t inside = 0;
  std::uint32_t outside = 0;
  std::uint32_t count = 0;
  bool operator==(const IdRange&) const = default;
};

// Leave the host's mount table and live in the root that this plan builds. As an ordinary user,
// also enter a user namespace first in which the rest is allowed.
struct BuildTemplate {
  Plan plan;
  bool new_user_namespace = false;
  bool operator==(const BuildTemplate&) const = default;
};

// Make a user namespace with these maps; its descriptor travels back with Done. The kernel charges
// what is counted for a user (watches, queued signals, message queues) in the namespace to its
// `account` outside of it as well, the id that made it: 0 for the launcher's own.
struct CreateUserNamespace {
  std::vector<IdRange> uids;
  std::vector<IdRange> gids;
  std::uint32_t account = 0;
  bool operator==(const CreateUserNamespace&) const = default;
};

// Make the process of a box, in namespaces of its own. It applies the plan, which may use no
// descriptors, and waits for FinishBox. The descriptor that travels along is the box's end of its
// control socket. Answered by Launched with a pidfd. The box does not depend on the launcher's
// life.
struct LaunchBox {
  bool new_network = true;
  Plan plan;
  bool operator==(const LaunchBox&) const = default;
};

// The first message on a box's control socket: the rest of what makes it a box. Its process applies
// the plan and is the guest from then on.
struct FinishBox {
  Plan plan;
  GuestSettings guest;
  bool operator==(const FinishBox&) const = default;
};

// Directories of the owner's cgroups travel along, one for each hierarchy: when the owner is gone,
// the launcher removes what is left in them and the directories themselves. Last comes the lock on
// the owner's number, which nobody shall take before that is done.
struct AdoptCgroups {
  std::vector<std::string> names;  // names[i] is the name of the directory in its parent
  bool operator==(const AdoptCgroups&) const = default;
};

// Show a mount in a box that lives. The first descriptor is the box's mount namespace, or a pidfd
// of a process in it; the second is the mount, detached. An ordinary user cannot prepare one: it is
// then made of `source`, a path of the host, which must be what is expected there.
struct ShowMount {
  std::string target;  // made when it is missing, as far as the owner of the box could
  // A directory above the target, of the box's root, that gets a small file system of its own for
  // mount points, which nobody in the box can write to; empty: none.
  std::string holder;
  std::uint32_t owner = 0;  // the payload's id, where the launcher is
  bool replace = false;     // what is mounted there goes first; otherwise that is an error, EBUSY
  std::string source;
  bool read_only = true;
  std::uint64_t expected_device = 0;
  std::uint64_t expected_inode = 0;
  bool operator==(const ShowMount&) const = default;
};

// Show it no longer; what is in use of it stays for those who have it open. The descriptor is as
// above. Where nothing is mounted nothing happens.
struct HideMount {
  std::string target;
  std::string holder;  // the mount point goes as well
  bool operator==(const HideMount&) const = default;
};

// The real request of `size` bytes is in the memory file that is the first descriptor.
struct IndirectLaunch {
  std::uint64_t size = 0;
  bool operator==(const IndirectLaunch&) const = default;
};

struct Done {
  bool operator==(const Done&) const = default;
};
struct Launched {
  std::int32_t pid = 0;
  bool operator==(const Launched&) const = default;
};
struct LaunchFailed {
  std::string step;
  std::int32_t error_number = 0;
  bool operator==(const LaunchFailed&) const = default;
};

using LaunchRequest = std::variant<BuildTemplate, CreateUserNamespace, LaunchBox, AdoptCgroups,
                                   IndirectLaunch, FinishBox, ShowMount, HideMount>;
using LaunchReply = std::variant<Done, Launched, LaunchFailed>;

std::string encode(const LaunchRequest& request);
std::string encode(const LaunchReply& reply);
LaunchRequest decode_launch_request(std::string_view data);
LaunchReply decode_launch_reply(std::string_view data);

}  // namespace caisson::wire
