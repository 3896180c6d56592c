#pragma once
#include <string_view>

#include "model/config.h"

// Whoever started the daemon and watches it, systemd for one.
namespace caisson::daemon {

// Tells a supervisor how far we are, if there is one that wants to know; see sd_notify(3).
void notify_supervisor(std::string_view state);

// Whether boxes outlive this daemon when it is stopped: as the operator says, or, with a
// supervisor, because it is to be started again.
bool leaves_boxes(const model::DaemonConfig& daemon);

}  // namespace caisson::daemon
