#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/cancellation.h"
#include "async/task.h"
#include "backend/box.h"

namespace caisson::backend {

enum class OutputStream { out, err };

// Shows what a command writes, as it comes. A viewer that cannot keep up says so by pause(): the
// command is then held back by its pipe, as by any slow reader, until resume().
class OutputViewer {
 public:
  virtual ~OutputViewer() = default;
  virtual void show(OutputStream stream, std::string_view bytes) = 0;
  bool paused() const { return paused_; }
  void pause() { paused_ = true; }
  void resume() {
    paused_ = false;
    if (on_resume) on_resume();
  }
  std::function<void()> on_resume;  // set by whoever reads for the viewer

 private:
  bool paused_ = false;
};

// How a command is run, whatever it is.
struct RunOptions {
  std::string input;                                     // standard input, then end of file
  std::optional<std::chrono::milliseconds> timeout;      // none: no limit
  std::size_t output_limit = 1u << 20;                   // bytes kept of each stream
  std::shared_ptr<OutputViewer> viewer = nullptr;        // sees all of the output, kept or not
  std::shared_ptr<Cancellation> cancellation = nullptr;  // kills the command
};

// One command in a box, run to its end.
struct RunRequest : RunOptions {
  ProcessSpec process;
};

// One captured stream: the first `output_limit` bytes and an exact count of what came after.
struct CapturedStream {
  std::string data;
  std::uint64_t discarded = 0;
};

struct RunResult {
  bool timed_out = false;  // then `exit` says how the killed process ended
  std::string box_lost;    // or that it did not, and took its box with it: why; empty: it ended
  ProcessExit exit;
  CapturedStream out;
  CapturedStream err;
  std::chrono::microseconds duration{0};
};

// A command that has been started, with our ends of its pipes. One that is dropped before it has
// run to its end is killed.
class StartedCommand {
 public:
  StartedCommand() = default;
  StartedCommand(StartedCommand&&) = default;
  StartedCommand& operator=(StartedCommand&& other) noexcept;
  ~StartedCommand() { kill(); }

  explicit operator bool() const { return process != nullptr; }
  void kill() noexcept;  // the process and its group

  std::unique_ptr<Process> process;
  UniqueFd in;  // closed when its standard input is /dev/null
  UniqueFd out;
  UniqueFd err;
};

// Programs look at what their input is: given a pipe, some of them wait for what comes from it.
enum class Input { none, pipe };

// Starts it without waiting for the program to be executed: run_to_end() reports that it cannot be.
// `more` are its descriptors from 3 on.
Task<StartedCommand> start_command(Box& box, ProcessSpec process, Input input,
                                   std::vector<UniqueFd> more = {});

// Gives the command its input and collects what it writes. The result is complete when the command
// itself has ended: what it wrote before that is all there, and background processes that keep the
// pipes open do not delay it. On timeout the command's process group is killed and what it wrote is
// kept. Time and memory count from here.
Task<RunResult> run_to_end(StartedCommand command, RunOptions options);

// Both.
Task<RunResult> run(Box& box, RunRequest request);

// PATH, HOME, LANG and the other names every command in a box starts with, as "NAME=value".
std::vector<std::string> default_environment();
// The same with these names over them.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& own);

}  // namespace caisson::backend
