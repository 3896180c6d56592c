#include "daemon/hangup.h"

#include <signal.h>
#include <unistd.h>

#include "base/log.h"

namespace caisson::daemon {

Hangup meaning_of_hangup() {
  struct sigaction action {};
  if (::sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
    return Hangup::ignored;
  }
  const bool at_terminal = ::isatty(STDIN_FILENO) == 1 || ::isatty(STDERR_FILENO) == 1;
  return at_terminal ? Hangup::stop : Hangup::nothing;
}

void log_hangup() {
  log::warning(
      "SIGHUP changes nothing: the configuration is read at the start; `caisson serve --replace` "
      "starts a daemon with a new one, SIGTERM stops this one");
}

}  // namespace caisson::daemon
