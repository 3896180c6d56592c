#pragma once
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "wire/guest.h"

namespace caisson::guest {

// What every payload of a box goes through before its program runs.
struct PayloadRules {
  std::vector<int> cgroups;  // borrowed: files of theirs, to write "0" to
};

struct StartOutcome {
  pid_t pid = -1;                  // valid when step_failed is false
  UniqueFd terminal = UniqueFd();  // its master, if one was asked for
  bool step_failed = false;
  wire::StartStep step = wire::StartStep::request;
  int error_number = 0;
};

// Starts the program of `request` with these descriptors (3 to kMaxStartFds) as its own, from 0 on,
// or with a terminal that controls it: in the cgroups of the rules, in a session and process group
// of its own, as the given user, without capabilities, in its directory.
StartOutcome start_payload(const wire::Start& request, std::span<const UniqueFd> fds,
                           const PayloadRules& rules);

// Runs `check(argument)` in a process that went the same way, and waits for it. The check shares
// memory with the caller and may only make system calls and write to `argument`.
StartOutcome run_as_payload(std::uint32_t uid, std::uint32_t gid, const PayloadRules& rules,
                            void (*check)(void*), void* argument);

}  // namespace caisson::guest
