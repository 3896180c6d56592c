#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report.h"
#include "samples.h"
#include "turns.h"

namespace caisson::benchmarks {

// Something else that runs the trivial command, and how long it took to.
struct PeerCommand {
  std::string name;
  std::vector<std::string> argv;
  unsigned every = 1;  // takes part in every so many rounds
  Samples samples;

  Contender contender();  // refers to this object
};

// The command line of one run in a fresh sandbox, with namespaces, a read-only system, /proc, /dev
// and /tmp like those of a box. Neither sets limits or installs a system call filter: what ours
// does beyond them is paid by us.
std::vector<std::string> bwrap_command();
std::vector<std::string> nsjail_command();

// The peer if its command works here; otherwise nothing, and a note that says why.
std::optional<PeerCommand> probe_peer(const std::string& name, const std::vector<std::string>& argv,
                                      Report& report);

// Whether PATH has a program of this name.
bool is_installed(const std::string& program);

}  // namespace caisson::benchmarks
