#include "cli/terminal.h"

#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/str.h"
#include "cli/settings.h"

namespace caisson::cli {

namespace {

constexpr auto kFirst = std::chrono::seconds(1);
constexpr auto kBetween = std::chrono::milliseconds(100);

void write_to_terminal(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

bool wants_colour(int fd) {
  const Environment environment = process_environment();
  if (!environment("NO_COLOR").value_or("").empty()) return false;
  return ::isatty(fd) != 0 && environment("TERM").value_or("dumb") != "dumb";
}

std::string coloured(std::string_view text, Colour colour, bool enabled) {
  if (!enabled) return std::string(text);
  static constexpr std::array<std::string_view, 4> kCodes = {"32", "33", "31", "1"};
  return str("\x1b[", kCodes.at(static_cast<std::size_t>(colour)), "m", text, "\x1b[0m");
}

std::string padded(std::string_view text, std::size_t width) {
  std::string out(text);
  if (out.size() < width) out.append(width - out.size(), ' ');
  return out;
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return str(bytes, " B");
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 999.95 would be written as 1000.0.
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", value, kUnits.at(unit));
  return text;
}

ProgressLine::ProgressLine(bool enabled)
    : enabled_(enabled && ::isatty(STDERR_FILENO) != 0), next_(Clock::now() + kFirst) {}

ProgressLine::~ProgressLine() {
  if (shown_) write_to_terminal("\r\x1b[K");
}

bool ProgressLine::due() {
  return enabled_ && Clock::now() >= next_;
}

void ProgressLine::show(std::string_view text) {
  shown_ = true;
  next_ = Clock::now() + kBetween;
  write_to_terminal(str("\r", text, "\x1b[K"));
}

}  // namespace caisson::cli
