#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace caisson::cli {

// Rows of the same length, the first one with the headings, in columns of which each is as wide as
// its widest cell. Cells are made safe to print on a terminal.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

std::string short_duration(std::chrono::seconds time);  // "59s", "12m", "3h", "4d"

}  // namespace caisson::cli
