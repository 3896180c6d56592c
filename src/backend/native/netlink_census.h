#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

// What waits to be read from netlink sockets. The kernel keeps it in memory that no control group
// counts, up to some 200 KB for each socket.
namespace caisson::backend::native {

// What a box may leave unread while the host's kernel memory grows.
inline constexpr std::uint64_t kMostNetlinkBytes = 8u << 20;

// The sum over the sockets of a network namespace, as /proc/PID/net/netlink lists them.
std::uint64_t netlink_bytes(std::string_view table);

// The first of these guests in whose box more waits than may. Boxes have network namespaces of
// their own, so there is no doubt whose it is.
std::optional<pid_t> find_netlink_hoarder(const std::set<pid_t>& guests);

}  // namespace caisson::backend::native
