#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::log {

enum class Level { debug, info, warning, error };
enum class Format { text, json };

struct Field {
  std::string name;
  std::string value;
  bool is_number = false;
};

// Where and how events are written; standard error, text and info until told otherwise. Called
// once, before threads start.
void configure(Level least, Format format, int fd);

// One line: time, level, event, fields. Control characters are escaped and values bounded, so that
// nothing a box says can forge a line.
void write(Level level, std::string_view event, const std::vector<Field>& fields);

// The line that write() prints, without the time: the testable part.
std::string format_line(Format format, Level level, std::string_view event,
                        const std::vector<Field>& fields);

namespace detail {
inline void collect(std::vector<Field>&) {}
template <typename Value, typename... Rest>
void collect(std::vector<Field>& fields, std::string_view name, const Value& value,
             const Rest&... rest) {
  if constexpr (std::integral<Value>) {
    fields.push_back({std::string(name), std::to_string(value), true});
  } else {
    fields.push_back({std::string(name), std::string(value), false});
  }
  collect(fields, rest...);
}
template <typename... Pairs>
void emit(Level level, std::string_view event, const Pairs&... pairs) {
  std::vector<Field> fields;
  collect(fields, pairs...);
  write(level, event, fields);
}
}  // namespace detail

// log::info("session started", "session", id, "ms", elapsed)
template <typename... Pairs>
void debug(std::string_view event, const Pairs&... pairs) {
  detail::emit(Level::debug, event, pairs...);
}
template <typename... Pairs>
void info(std::string_view event, const Pairs&... pairs) {
  detail::emit(Level::info, event, pairs...);
}
template <typename... Pairs>
void warning(std::string_view event, const Pairs&... pairs) {
  detail::emit(Level::warning, event, pairs...);
}
template <typename... Pairs>
void error(std::string_view event, const Pairs&... pairs) {
  detail::emit(Level::error, event, pairs...);
}

}  // namespace caisson::log
