#pragma once
#include <termios.h>

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace caisson::cli {

struct TerminalSize {
  unsigned rows = 0;
  unsigned columns = 0;
  bool operator==(const TerminalSize&) const = default;
};

// Of the terminal that we are on; nullopt when there is none, or it does not know.
std::optional<TerminalSize> terminal_size();
// "rows" and "columns" of a process that is to have a terminal of this size.
void set_size(boost::json::object& process, const std::optional<TerminalSize>& size);

// A terminal that hands on every key as it is, and prints every byte as it comes. It is as it was
// before when this goes.
class RawTerminal {
 public:
  explicit RawTerminal(int fd);  // borrowed; throws SystemError
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal() { restore(); }

  void restore() noexcept;  // for those who end without destructors; safe to repeat
  void enter();             // again

 private:
  int fd_;
  termios before_{};
  bool raw_ = false;
};

// Finds Control-P Control-Q in what is typed. A Control-P waits for the key behind it.
class DetachKeys {
 public:
  struct Typed {
    std::string bytes;    // for the process
    bool detach = false;  // the keys came; what was typed behind them is nobody's
  };
  Typed take(std::string_view bytes);

 private:
  bool held_ = false;  // a Control-P
};

}  // namespace caisson::cli
