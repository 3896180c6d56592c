#include "session/shell.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/shell.h"
#include "base/str.h"

namespace caisson::session {

namespace {

constexpr const char* kScriptName = "caisson-command";

// Descriptor 3 wakes the shell, descriptor 4 is the script. A shell reads scripts piece by piece
// while it runs them, from a descriptor that its commands do not get. What makes it a login shell
// comes after the wait: a profile that the last command changed is read as it is now.
constexpr const char* kWait =
    "read -r _ <&3 || exit; "
    "[ -r /etc/profile ] && . /etc/profile; "
    "[ -r \"$HOME/.profile\" ] && . \"$HOME/.profile\"; "
    ". /dev/fd/4";

// Both ends of what wakes a shell, ours first. A socket and no pipe: that of another process cannot
// be opened by its name in /proc. What comes back from the box nobody reads.
std::pair<UniqueFd, UniqueFd> make_wake() {
  int ends[2];
  check_syscall("socketpair", ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  std::pair<UniqueFd, UniqueFd> wake{UniqueFd(ends[0]), UniqueFd(ends[1])};
  check_syscall("socketpair", ::shutdown(wake.first.get(), SHUT_RD));
  return wake;
}

bool wake_up(int wake) {
  return ::send(wake, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

}  // namespace

std::string script_of(std::string_view workdir, std::string_view command) {
  const std::string directory = shell_quoted(workdir);
  return str("exec 3<&- 4<&-; [ -d ", directory, " ] || mkdir -p ", directory, "; cd ", directory,
             " || exit 2; ", command, "\n");
}

namespace {

Task<backend::StartedCommand> start_waiting(backend::Box& box, const ShellSettings& settings,
                                            std::uint64_t after, UniqueFd wait_end, int script) {
  std::vector<UniqueFd> more;
  more.push_back(std::move(wait_end));
  more.push_back(duplicate(script, kScriptName));
  backend::ProcessSpec process;
  process.argv = {"/bin/sh", "-c", kWait, "sh"};
  process.env = backend::environment_with(settings.env);
  process.after = after;
  process.cwd = "/";  // the script makes and enters the directory, and says so if it cannot
  return backend::start_command(box, std::move(process), settings.input, std::move(more));
}

}  // namespace

Task<WaitingShell> WaitingShell::start(backend::Box& box, ShellSettings settings,
                                       std::uint64_t after) {
  WaitingShell shell;
  shell.settings_ = std::move(settings);
  shell.script_ = ScriptFile::make();
  auto [wake_end, wait_end] = make_wake();
  shell.wake_ = std::move(wake_end);
  shell.command_ =
      co_await start_waiting(box, shell.settings_, after, std::move(wait_end), shell.script_.fd());
  co_return shell;
}

std::optional<backend::StartedCommand> WaitingShell::give(std::string_view command) {
  if (!script_.write(script_of(settings_.workdir, command))) return std::nullopt;
  command_.process->put_to_use();
  if (!wake_up(wake_.get())) return std::nullopt;
  return std::move(command_);
}

bool WaitingShell::began() const {
  int error = 0;
  socklen_t size = sizeof error;
  const bool asked = ::getsockopt(wake_.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0;
  return !asked || error != ECONNRESET;
}

Task<backend::StartedCommand> start_shell(backend::Box& box, ShellSettings settings,
                                          std::string_view command) {
  const std::string script = script_of(settings.workdir, command);
  const UniqueFd file =
      sealed_memory_file(kScriptName, std::as_bytes(std::span(script.data(), script.size())));
  auto [wake_end, wait_end] = make_wake();
  if (!wake_up(wake_end.get())) throw SystemError("socketpair", errno);
  co_return co_await start_waiting(box, settings, 0, std::move(wait_end), file.get());
}

}  // namespace caisson::session
