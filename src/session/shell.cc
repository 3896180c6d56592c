#include "session/shell.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

namespace caisson::session {

namespace {

constexpr const char* kScriptName = "caisson-command";

// Descriptor 3 wakes the shell, descriptor 4 is the script. A shell reads scripts piece by piece
// while it runs them, from a descriptor that its commands do not get. What makes it a login shell
// comes after the wait: a profile that the last command changed is read as it is now.
constexpr const char* kWait =
    "read -r _ <&3; "
    "[ -r /etc/profile ] && . /etc/profile; "
    "[ -r \"$HOME/.profile\" ] && . \"$HOME/.profile\"; "
    ". /dev/fd/4";

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

std::vector<std::string> environment(const std::map<std::string, std::string>& env) {
  std::vector<std::string> result;
  for (std::string& entry : backend::default_environment()) {
    if (!env.contains(entry.substr(0, entry.find('=')))) result.push_back(std::move(entry));
  }
  for (const auto& [name, value] : env) result.push_back(str(name, "=", value));
  return result;
}

}  // namespace

std::string script_of(std::string_view workdir, std::string_view command) {
  const std::string directory = quoted(workdir);
  return str("exec 3<&- 4<&-; [ -d ", directory, " ] || mkdir -p ", directory, "; cd ", directory,
             " || exit 2; ", command, "\n");
}

Task<WaitingShell> WaitingShell::start(backend::Box& box, ShellSettings settings,
                                       std::uint64_t after) {
  WaitingShell shell;
  shell.settings_ = std::move(settings);
  shell.script_ = memory_file(kScriptName);
  auto [wait_end, wake_end] = make_pipe();
  shell.wake_ = std::move(wake_end);
  std::vector<UniqueFd> more;
  more.push_back(std::move(wait_end));
  more.push_back(duplicate(shell.script_.get(), kScriptName));
  backend::ProcessSpec process;
  process.argv = {"/bin/sh", "-c", kWait, "sh"};
  process.env = environment(shell.settings_.env);
  process.after = after;
  process.cwd = "/";  // the script makes and enters the directory, and says so if it cannot
  shell.command_ = co_await backend::start_command(box, std::move(process), shell.settings_.input,
                                                   std::move(more));
  co_return shell;
}

backend::StartedCommand WaitingShell::give(std::string_view command) {
  const std::string script = script_of(settings_.workdir, command);
  std::size_t written = 0;
  while (written < script.size()) {  // pwrite: the shell may share our offset
    const ssize_t put = ::pwrite(script_.get(), script.data() + written, script.size() - written,
                                 static_cast<off_t>(written));
    written += static_cast<std::size_t>(check_syscall(kScriptName, put));
  }
  seal_memory_file(script_.get(), kScriptName);
  script_.reset();
  if (waited_) command_.process->put_to_use();
  woken_ =
      ::write(wake_.get(), "\n", 1) == 1;  // the pipe has room; a shell that is gone has no end
  return std::move(command_);
}

bool WaitingShell::began() const {
  int unread = 0;
  return woken_ && ::ioctl(wake_.get(), FIONREAD, &unread) == 0 && unread == 0;
}

}  // namespace caisson::session
