#pragma once
#include <string>
#include <vector>

#include "base/clock.h"

namespace caisson::backend::native {

// Kills every process of the cgroup and of all below it in one stroke: nothing can fork its way
// out. False when the kernel has no cgroup.kill here (v1, and v2 before Linux 5.14).
bool kill_subtree(int directory);

// Sends SIGKILL to every process of this one cgroup, looking again until no new one shows up. Goes
// by pidfd, and only to processes seen inside after the pidfd was opened: a reused pid is never
// hit. False when processes multiplied faster, or belong to somebody we may not signal.
bool kill_members(int directory);

// Whether any process is in this one cgroup; those that have ended and are not waited for do not
// count.
bool has_members(int directory);

// Kills whatever is in the cgroup `name` of `parent`, waits for it to end and removes the cgroups,
// the deepest first. False when something is left at the deadline or may not be removed.
bool remove_tree(int parent, const std::string& name, Deadline deadline);

// The same of what no process lives in, without touching any: false when one does.
bool remove_empty_tree(int parent, const std::string& name);
// Of all that is below the cgroup. False when a process lives there, or in the cgroup itself.
bool remove_empty_below(int directory);

// The names of the cgroups directly below.
std::vector<std::string> child_cgroups(int directory);

}  // namespace caisson::backend::native
