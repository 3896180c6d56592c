#pragma once
#include <cstdint>
#include <string_view>

namespace caisson::guest {

// The steps by which the guest gives away what it does not need. Each throws StepError.

void enter_user_namespace(int user_namespace, std::uint32_t uid, std::uint32_t gid);

// Leaves CAP_SETUID, CAP_SETGID and CAP_KILL: to start payloads as another user and to end them.
// The bounding set is empty, so nothing that is executed from here on can hold any capability.
void drop_privileges();

void install_filter(std::string_view program);

// Makes effective what is permitted, as it is no more after a change from uid 0 to another. Returns
// a negative value with errno.
int raise_capabilities();

// In a payload: no capability at all. Returns 0 or the error as a negative number, and leaves errno
// alone: the payload may share the guest's memory.
int drop_all_capabilities();

}  // namespace caisson::guest
