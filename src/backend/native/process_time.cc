#include "backend/native/process_time.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::backend::native {

namespace fs = std::filesystem;

namespace {

// In ticks, as proc(5) has them.
struct Times {
  std::uint64_t own = 0;
  std::uint64_t of_children = 0;  // that have ended and were waited for, and of theirs
};

// A process may end at any time, and others be out of sight.
std::string read(const fs::path& path) {
  try {
    return find_file_content(path).value_or("");
  } catch (const Error&) {
    return "";
  }
}

Times times_of(pid_t process) {
  const std::string stat = read(str("/proc/", process, "/stat"));
  // The name stands in parentheses and may have any of its own; state is the first field behind.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  const std::vector<std::string_view> fields =
      split(trim(std::string_view(stat).substr(name_end + 1)), ' ');
  const auto number = [&fields](std::size_t index) {
    const auto parsed = index < fields.size() ? parse_integer(fields[index]) : std::nullopt;
    return static_cast<std::uint64_t>(parsed.value_or(0));
  };
  constexpr std::size_t kUserTime = 11;
  return {.own = number(kUserTime) + number(kUserTime + 1),
          .of_children = number(kUserTime + 2) + number(kUserTime + 3)};
}

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code gone;
  for (fs::directory_iterator thread(str("/proc/", process, "/task"), gone), end;
       !gone && thread != end; thread.increment(gone)) {
    const std::string list = read(thread->path() / "children");
    for (const std::string_view word : split(trim(list), ' ')) {
      if (const auto pid = parse_integer(word)) children.push_back(static_cast<pid_t>(*pid));
    }
  }
  return children;
}

}  // namespace

std::chrono::microseconds time_below(pid_t process) {
  std::uint64_t ticks = times_of(process).of_children;
  std::vector<pid_t> left = children_of(process);
  std::set<pid_t> seen;
  while (!left.empty()) {
    const pid_t child = left.back();
    left.pop_back();
    // One that moves to another parent meanwhile counts once.
    if (!seen.insert(child).second) continue;
    const Times times = times_of(child);
    ticks += times.own + times.of_children;
    for (const pid_t grandchild : children_of(child)) left.push_back(grandchild);
  }
  const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return std::chrono::microseconds(ticks * 1'000'000 / per_second);
}

}  // namespace caisson::backend::native
