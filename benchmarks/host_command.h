#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace caisson::benchmarks {

// How a command is started on the host, without any box.
enum class Spawn { posix_spawn, vfork };

struct Captured {
  int status = 0;  // as of waitpid(2)
  bool timed_out = false;
  std::string out;
  std::string err;
};

// Starts argv[0], which is a path or looked up in PATH, with /dev/null as its input and a pipe for
// each of its output streams; reads both to their end and waits. This is the least a program can do
// that wants a command's output. With a timeout the command is killed when it is over.
Captured run_captured(const std::vector<std::string>& argv, Spawn spawn = Spawn::posix_spawn,
                      std::optional<std::chrono::milliseconds> timeout = std::nullopt);

// As above; throws command_not_started, with what it wrote, unless it exits with 0.
void run_checked(const std::vector<std::string>& argv, Spawn spawn = Spawn::posix_spawn);

// The command that everything here runs, in a box or not. A path, so that nobody searches PATH.
const std::vector<std::string>& trivial_command();

}  // namespace caisson::benchmarks
