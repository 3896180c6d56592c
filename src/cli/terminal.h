#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace caisson::cli {

// Whether to write colours there: a terminal that knows them, and nobody asked for none (NO_COLOR).
bool wants_colour(int fd);

enum class Colour { green, yellow, red, bold };
std::string coloured(std::string_view text, Colour colour, bool enabled);

std::string padded(std::string_view text, std::size_t width);  // with spaces on the right

std::string human_bytes(std::uint64_t bytes);  // "512 B", "1.9 MB"

// One line on a terminal that changes while something takes long: nothing in the first second,
// nothing at all when standard error is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool enabled);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();  // wipes the line

  bool due();  // cheap; true when it is time to show something
  void show(std::string_view text);

 private:
  bool enabled_;
  bool shown_ = false;
  Deadline next_;
};

}  // namespace caisson::cli
