#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "wire/guest.h"

namespace caisson::guest {

// What every payload of a box goes through before its program runs.
struct PayloadRules {
  std::vector<int> cgroups;  // borrowed: files of theirs, to write "0" to
};

struct StartOutcome {
  bool step_failed = false;
  wire::StartStep step = wire::StartStep::request;
  int error_number = 0;
};

// A program on its way. From clone(2) until it is executed, its process shares the guest's memory
// and what is kept here; for the last part of that it has the payload's user, and payloads can stop
// it. So nobody waits for it without a bound, and the object stays until it is decided.
class PayloadStart {
 public:
  // Starts the program of `request` with these descriptors (3 to kMaxStartFds) as its own, from 0
  // on, or with a terminal that controls it: in the cgroups of the rules, in a session and process
  // group of its own, as the given user, without capabilities, in its directory.
  PayloadStart(wire::Start request, std::span<const UniqueFd> fds, const PayloadRules& rules);
  ~PayloadStart();
  PayloadStart(const PayloadStart&) = delete;
  PayloadStart& operator=(const PayloadStart&) = delete;

  const wire::Start& request() const { return request_; }
  pid_t pid() const { return pid_; }  // -1: there is no process

  // Whether the program runs, or never will. Its process then shares nothing with us any more.
  bool decided() const;
  // The same after waiting for it, for a moment at most.
  bool wait_a_moment() const;

  // Once it is decided.
  StartOutcome outcome() const;
  UniqueFd take_terminal() { return std::move(terminal_); }  // its master, if one was asked for

 private:
  struct Shared;  // with the process

  wire::Start request_;
  UniqueFd terminal_;
  StartOutcome outcome_;  // of what happens before there is a process
  pid_t pid_ = -1;
  std::unique_ptr<Shared> shared_;
};

// Runs `check(argument)` in a process that went the same way, and waits for it. The check shares
// memory with the caller, who waits, and may only make system calls and write to `argument`: for a
// box in which nothing else runs yet.
StartOutcome run_as_payload(std::uint32_t uid, std::uint32_t gid, const PayloadRules& rules,
                            void (*check)(void*), void* argument);

}  // namespace caisson::guest
