#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "async/task.h"
#include "backend/box.h"
#include "backend/run.h"
#include "base/unique_fd.h"
#include "session/script_file.h"

namespace caisson::session {

// What a shell has before it gets its command.
struct ShellSettings {
  std::string workdir;
  std::map<std::string, std::string> env;  // beyond what every command in a box has
  backend::Input input = backend::Input::none;
  bool operator==(const ShellSettings&) const = default;
};

// A login shell that is started and waits for its one command. The command comes in a memory file,
// so that it may have any content. What is in the box already while the shell waits - a payload
// sees the shell, and may open what it has open - can neither change the command nor wake the
// shell. One that is dropped is killed.
class WaitingShell {
 public:
  // With `after`, it starts when that process of the box has ended.
  static Task<WaitingShell> start(backend::Box& box, ShellSettings settings,
                                  std::uint64_t after = 0);

  WaitingShell() = default;
  explicit operator bool() const { return static_cast<bool>(command_); }
  const ShellSettings& settings() const { return settings_; }

  // Wakes it, and gives away what runs now. Nothing: it is gone, or somebody has tampered with it,
  // or the command is too long for it; nothing of the command has happened then.
  std::optional<backend::StartedCommand> give(std::string_view command);

  // To be asked when what was given away has ended. False: the shell ended before it read the one
  // byte that woke it, so nothing of the command has happened. Only we can write to where it reads,
  // and the kernel says that it was left unread: in any doubt the command has begun.
  bool began() const;

 private:
  ShellSettings settings_;
  backend::StartedCommand command_;
  UniqueFd wake_;
  ScriptFile script_;
};

// A login shell with its command: for those that a shell did not wait for.
Task<backend::StartedCommand> start_shell(backend::Box& box, ShellSettings settings,
                                          std::string_view command);

// What the shell runs: in the working directory, which is made if it is gone, and with nothing left
// open that is ours. The command begins on the first line, as its errors say.
std::string script_of(std::string_view workdir, std::string_view command);

}  // namespace caisson::session
