#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "backend/backend.h"
#include "cli/copy.h"
#include "model/box_settings.h"
#include "model/isolation.h"

namespace caisson::cli {

// One command in a box of its own.
struct OneShot {
  model::BoxSettings box;
  std::string workdir;
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::optional<std::chrono::milliseconds> timeout;
  std::optional<int> input;  // passed on to the command; none: it reads nothing
  Sink out;                  // called on a thread of its own, as is `err`
  Sink err;
  std::function<void(const model::IsolationReport&)> on_ready;  // the box is there
};

struct OneShotOutcome {
  backend::ProcessExit exit;  // of the command, unless the box was ended before it
  bool timed_out = false;
  int interrupted = 0;          // the signal that ended the box, or 0
  bool output_complete = true;  // false: a sink is stuck, and its thread with it
  std::chrono::microseconds duration{0};
  model::IsolationReport isolation;
};

// Makes the box, runs the command, removes the box. SIGINT, SIGTERM and SIGHUP, unless they are
// ignored, go to the command's process group; a second one ends the box. When the command has ended
// the box ends with it, so that nothing in it can hold the output open.
//
// With `output_complete` false a thread still waits for a sink: end the program without joining it.
Task<OneShotOutcome> run_one_shot(backend::Backend& backend, OneShot request);

}  // namespace caisson::cli
