#pragma once
#include <optional>
#include <string>
#include <vector>

namespace caisson::quota {

// The path of a system program such as mkfs.ext4, looked for where distributions put them.
std::optional<std::string> find_tool(const std::string& name);

// Runs it to its end without input. The answer is its exit status, 255 when a signal ended it;
// `said` gets what it wrote.
int run_tool(const std::vector<std::string>& argv, std::string& said);

}  // namespace caisson::quota
