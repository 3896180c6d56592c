#include "cli/table.h"

#include <algorithm>

#include "base/str.h"
#include "base/text.h"

namespace caisson::cli {

namespace {

constexpr std::size_t kMaxCell = 1024;

// Characters, not bytes: names come in any alphabet.
std::size_t width_of(const std::string& cell) {
  return static_cast<std::size_t>(std::count_if(cell.begin(), cell.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

}  // namespace

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> cells = rows;
  std::vector<std::size_t> widths;
  for (std::vector<std::string>& row : cells) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = printable(row[i], kMaxCell);
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - width_of(row[i]) + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string short_duration(std::chrono::seconds time) {
  using std::chrono::duration_cast;
  time = std::max(time, std::chrono::seconds(0));
  if (time < std::chrono::minutes(1)) return str(time.count(), "s");
  if (time < std::chrono::hours(1))
    return str(duration_cast<std::chrono::minutes>(time).count(), "m");
  if (time < std::chrono::days(1)) return str(duration_cast<std::chrono::hours>(time).count(), "h");
  return str(duration_cast<std::chrono::days>(time).count(), "d");
}

}  // namespace caisson::cli
