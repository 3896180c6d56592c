#pragma once
#include <algorithm>
#include <iterator>
#include <string_view>

// Programs that servers expect in a box of the default image, whatever the host has. Those that the
// host lacks are fetched once and shown to every box.
namespace caisson::model {

inline constexpr std::string_view kTools[] = {"pip", "uv", "uvx", "node", "npm", "npx"};

inline bool is_tool(std::string_view name) {
  return std::find(std::begin(kTools), std::end(kTools), name) != std::end(kTools);
}

// Where they are in a box: what is called, which is there in any case, and what that runs.
inline constexpr const char* kToolCommands = "/opt/caisson/bin";
inline constexpr const char* kToolFiles = "/opt/caisson/tools";

// Begins the second line of such a command, a script; the path of what it runs follows.
inline constexpr std::string_view kToolRuns = "# runs ";

}  // namespace caisson::model
