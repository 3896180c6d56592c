#include "cli/raw_terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "base/error.h"

namespace caisson::cli {

namespace {

constexpr char kControlP = 0x10;
constexpr char kControlQ = 0x11;

}  // namespace

std::optional<TerminalSize> terminal_size() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    winsize size{};
    if (::ioctl(fd, TIOCGWINSZ, &size) != 0) continue;  // no terminal
    if (size.ws_row > 0 && size.ws_col > 0) return TerminalSize{size.ws_row, size.ws_col};
  }
  return std::nullopt;
}

void set_size(boost::json::object& process, const std::optional<TerminalSize>& size) {
  if (!size) return;
  process["rows"] = size->rows;
  process["columns"] = size->columns;
}

RawTerminal::RawTerminal(int fd) : fd_(fd) {
  check_syscall("terminal", ::tcgetattr(fd_, &before_));
  enter();
}

// What was typed before stays, and what was printed comes out as it was meant.
void RawTerminal::enter() {
  termios raw = before_;
  ::cfmakeraw(&raw);
  check_syscall("terminal", ::tcsetattr(fd_, TCSADRAIN, &raw));
  raw_ = true;
}

void RawTerminal::restore() noexcept {
  // A terminal that is gone needs no mode.
  if (std::exchange(raw_, false)) ::tcsetattr(fd_, TCSADRAIN, &before_);
}

DetachKeys::Typed DetachKeys::take(std::string_view bytes) {
  Typed typed;
  for (const char c : bytes) {
    if (held_ && c == kControlQ) {
      typed.detach = true;
      return typed;
    }
    if (std::exchange(held_, c == kControlP)) typed.bytes.push_back(kControlP);
    if (!held_) typed.bytes.push_back(c);
  }
  return typed;
}

}  // namespace caisson::cli
