#include "backend/native/tool_commands.h"

#include "base/str.h"
#include "model/tools.h"

namespace caisson::backend::native {

namespace {

// A script rather than a link: python that is called by a link takes that for its own place, and
// what it makes (venvs) would refer to it.
std::string runs(const std::string& program) {
  return str("#!/bin/sh\n", model::kToolRuns, program, "\nexec ", program, " \"$@\"\n");
}

std::string runs_fetched(const std::string& name, const std::string& file,
                         const std::string& interpreter) {
  return str(
      "#!/bin/sh\n", model::kToolRuns, file, "\nif [ -f ", file, " ]; then exec ", interpreter,
      interpreter.empty() ? "" : " ", file, " \"$@\"; fi\n", "echo \"", name,
      ": not in this box; caisson image tools, run on the host, gives it to new boxes\" >&2\n"
      "exit 127\n");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> tool_commands(
    const std::map<std::string, std::string>& host, const std::string& set) {
  std::vector<std::pair<std::string, std::string>> commands;
  const auto add = [&](const std::string& name, std::string script) {
    if (!host.contains(name)) commands.emplace_back(name, std::move(script));
  };
  const std::string files = str(model::kToolFiles, "/", set, "/");
  const auto python = host.find("python3");
  if (python != host.end()) {
    add("python", runs(python->second));
    const auto pip = host.find("pip3");
    add("pip", pip != host.end() ? runs(pip->second)
                                 : runs_fetched("pip", files + kPipFile, python->second));
  }
  add("uv", runs_fetched("uv", files + kUvFile, ""));
  add("uvx", runs_fetched("uvx", files + kUvxFile, ""));
  const std::string node = files + kNodeFile;
  add("node", runs_fetched("node", node, ""));
  // npm is of the release of its node: another one may be too old for it.
  add("npm", runs_fetched("npm", files + kNpmFile, node));
  add("npx", runs_fetched("npx", files + kNpxFile, node));
  return commands;
}

}  // namespace caisson::backend::native
