#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::payload {

using Words = std::vector<std::string>;

// Something a program in a box may do, for tests of execs, limits and output.
struct Verb {
  std::string_view name;
  std::string_view usage;
  int (*run)(const Words& words);  // the words after the name; the answer is the exit code
};

std::span<const Verb> verbs();

// hold-count KIND: takes as much as it gets of something that the kernel counts for a user, prints
// "held N" and keeps it until the end of standard input.
int run_hold_count(const Words& words);

// fixture NAME KEY FILE: an abstract socket, a SysV segment, a file and two listeners, kept until
// the end of standard input. Prints "ready PORT4 PORT6".
int run_fixture(const Words& words);

// hold-locks FILE N [orphan]: N byte-range locks on the file, until the end of standard input.
int run_hold_locks(const Words& words);

// hold-netlink N: fills N netlink sockets with answers, until the end of standard input.
int run_hold_netlink(const Words& words);

// watch DIRECTORY: prints "watching" and, at the end of standard input, "saw N".
int run_watch(const Words& words);

// flock FILE: prints "locked" or why not, and keeps the lock until the end of standard input.
int run_flock(const Words& words);

// exhaust: takes all it gets of everything that is counted or kept for the whole host, prints a
// line for each kind and "exhausted", and keeps it until the end of standard input.
int run_exhaust(const Words& words);

// daily-work DIRECTORY [host]: a little of the same, and more where no filter is; prints "done".
int run_daily_work(const Words& words);

}  // namespace caisson::payload
