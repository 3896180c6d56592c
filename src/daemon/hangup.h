#pragma once

namespace caisson::daemon {

// What SIGHUP means to this process.
enum class Hangup {
  ignored,  // by whoever started it, such as nohup(1)
  stop,     // the terminal at which it was started is gone
  nothing,  // there is no such terminal, and nothing is read again while the daemon runs
};

// To be asked at the start: afterwards the terminal may be gone.
Hangup meaning_of_hangup();

// Says that a SIGHUP changed nothing, and what would.
void log_hangup();

}  // namespace caisson::daemon
