#include "base/log.h"

#include <unistd.h>

#include <ctime>

#include "base/str.h"
#include "base/text.h"

namespace caisson::log {

namespace {
constexpr std::size_t kMaxValueBytes = 2000;

struct Sink {
  Level least = Level::info;
  Format format = Format::text;
  int fd = STDERR_FILENO;
};
Sink& sink() {
  static Sink instance;
  return instance;
}

std::string_view name(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warning:
      return "warning";
    case Level::error:
      return "error";
  }
  return "info";
}

std::string json_text(std::string_view value) {
  std::string out = "\"";
  for (const char c : printable(value, kMaxValueBytes)) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
  return out;
}

std::string text_value(const Field& field) {
  const bool plain = !field.value.empty() &&
                     field.value.find_first_of(" \"=\\\t\n\r") == std::string::npos &&
                     printable(field.value, kMaxValueBytes) == field.value;
  return plain ? field.value : json_text(field.value);
}

std::string timestamp() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  char text[40];
  const std::size_t length = ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  const std::string milliseconds = std::to_string(1000 + now.tv_nsec / 1'000'000).substr(1);
  return str(std::string_view(text, length), ".", milliseconds, "Z");
}
}  // namespace

void configure(Level least, Format format, int fd) {
  sink() = {least, format, fd};
}

std::string format_line(Format format, Level level, std::string_view event,
                        const std::vector<Field>& fields) {
  if (format == Format::json) {
    std::string line = str("\"level\":\"", name(level), "\",\"event\":", json_text(event));
    for (const Field& field : fields) {
      line += str(",", json_text(field.name), ":",
                  field.is_number ? field.value : json_text(field.value));
    }
    return line;
  }
  std::string line = str(name(level), " ", printable(event));
  for (const Field& field : fields) line += str(" ", field.name, "=", text_value(field));
  return line;
}

void write(Level level, std::string_view event, const std::vector<Field>& fields) {
  const Sink& target = sink();
  if (level < target.least) return;
  const std::string body = format_line(target.format, level, event, fields);
  const std::string line = target.format == Format::json
                               ? str("{\"time\":\"", timestamp(), "\",", body, "}\n")
                               : str(timestamp(), " ", body, "\n");
  // One write(2) a line, so that lines of several threads do not mix. A full disk must not stop us.
  [[maybe_unused]] const ssize_t written = ::write(target.fd, line.data(), line.size());
}

}  // namespace caisson::log
