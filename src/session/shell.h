#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "async/task.h"
#include "backend/box.h"
#include "backend/run.h"
#include "base/unique_fd.h"

namespace caisson::session {

// What a shell has before it gets its command.
struct ShellSettings {
  std::string workdir;
  std::map<std::string, std::string> env;  // beyond what every command in a box has
  backend::Input input = backend::Input::none;
  bool operator==(const ShellSettings&) const = default;
};

// A login shell that is started and waits for its one command. The command comes in a memory file,
// so that it may have any size and any content; that the shell began it can be told from the pipe
// it is woken by. One that is dropped is killed.
class WaitingShell {
 public:
  // With `after`, it starts when that process of the box has ended.
  static Task<WaitingShell> start(backend::Box& box, ShellSettings settings,
                                  std::uint64_t after = 0);

  WaitingShell() = default;
  explicit operator bool() const { return static_cast<bool>(command_); }
  const ShellSettings& settings() const { return settings_; }

  // It may be a while until it gets a command.
  void park() { waited_ = true; }

  // Wakes it, and gives away what runs now. Call began() when it has ended.
  backend::StartedCommand give(std::string_view command);

  // False: the shell ended before it read its command, so nothing of the command has happened.
  bool began() const;

 private:
  ShellSettings settings_;
  backend::StartedCommand command_;
  UniqueFd wake_;
  UniqueFd script_;
  bool woken_ = false;
  bool waited_ = false;  // it was not started for the command it gets
};

// What the shell runs: in the working directory, which is made if it is gone, and with nothing left
// open that is ours. The command begins on the first line, as its errors say.
std::string script_of(std::string_view workdir, std::string_view command);

}  // namespace caisson::session
