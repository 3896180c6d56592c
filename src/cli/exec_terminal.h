#pragma once
#include <string>
#include <vector>

#include "cli/daemon_client.h"
#include "cli/exec_options.h"

namespace caisson::cli {

// A command with a terminal in a session of the daemon.
struct TerminalExec {
  DaemonPlace daemon;
  std::string session;
  SessionRequest settings;  // plan_session()
  ExecOptions options;      // its variables and its directory
  std::vector<std::string> command;
};

// As ssh -t: our terminal is that of the command until it ends, and the exit code is its own. When
// we are told to end, or our terminal goes away, the command ends, too.
int run_on_terminal(TerminalExec exec);

}  // namespace caisson::cli
