#include "session/command_check.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/run.h"
#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "model/tools.h"

namespace caisson::session {

namespace {

constexpr std::string_view kMarker = "\ncaisson-look-up\n";
constexpr std::size_t kMostOutput = 64u << 10;
// A box that is slower decides by the start itself.
constexpr std::chrono::seconds kPatience{10};

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool is_option_of_env(std::string_view word) {
  return word.starts_with('-') || word.find('=') != std::string_view::npos;
}

std::vector<std::string> needs_of_script(std::string_view head) {
  const std::string_view line = take_line(head);
  std::vector<std::string> needs;
  for (const std::string_view word : split(line.substr(2), ' ')) {
    const std::string_view name = trim(word);
    if (name.empty()) continue;
    if (needs.empty()) {
      needs.emplace_back(name);
      if (base_name(name) != "env") break;
    } else if (!is_option_of_env(name)) {
      needs.emplace_back(name);
      break;
    }
  }
  const std::string_view second = take_line(head);
  if (second.starts_with(model::kToolRuns)) {
    needs.emplace_back(second.substr(model::kToolRuns.size()));
  }
  return needs;
}

template <typename T>
std::optional<T> read_at(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::vector<std::string> needs_of_program(std::string_view head) {
  const auto header = read_at<Elf64_Ehdr>(head, 0);
  if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return {};
  }
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(head, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return {};
    if (segment->p_type != PT_INTERP || segment->p_offset > head.size()) continue;
    const std::string_view loader = head.substr(segment->p_offset, segment->p_filesz);
    return {std::string(loader.substr(0, loader.find('\0')))};
  }
  return {};
}

// Programs of the system find their loader there.
bool is_of_the_system(std::string_view path) {
  return path.starts_with("/usr/") || path.starts_with("/bin/") || path.starts_with("/sbin/");
}

Task<std::optional<LookUp>> look_up(backend::Box& box, const CommandQuestion& question,
                                    std::string command, std::vector<std::string> others) {
  backend::RunRequest request;
  request.process.argv = {"/bin/sh", "-lc", kLookUp, std::move(command)};
  for (std::string& other : others) request.process.argv.push_back(std::move(other));
  request.process.env = question.env;
  request.process.cwd = question.cwd;
  request.timeout = kPatience;
  request.output_limit = kMostOutput;
  try {
    const backend::RunResult result = co_await backend::run(box, std::move(request));
    co_return parse_look_up(result.out.data);
  } catch (const Error&) {
    // No shell, no room for a process, no box: the start says so.
  }
  co_return std::nullopt;
}

std::vector<std::string> names_of(const std::vector<Substitute>& substitutes) {
  std::vector<std::string> names;
  names.reserve(substitutes.size());
  for (const Substitute& substitute : substitutes) names.push_back(substitute.name);
  return names;
}

// The next step, where something is missing.
std::string advice(const std::string& missing, const std::vector<std::string>& there,
                   const CommandQuestion& question) {
  std::vector<std::string> calls;
  for (const Substitute& substitute : substitutes_for(missing)) {
    if (std::ranges::find(there, substitute.name) != there.end()) calls.push_back(substitute.call);
  }
  std::string text;
  if (!calls.empty()) text = str("; there is ", join(calls, ", "));
  const std::string_view name = base_name(missing);
  if (!question.default_image) {
    text += "; else put it into the image of the session";
  } else if (!question.tool_problem.empty()) {
    text += str("; ", question.tool_problem);
  } else if (model::is_tool(name)) {
    text += str("; `caisson image tools` on the host gives boxes of the default image ", name);
  } else if (calls.empty()) {
    text += "; install it on the host, whose programs boxes of the default image have";
  }
  return text;
}

std::string not_there(const CommandQuestion& question, const std::string& search_path,
                      const std::vector<std::string>& others) {
  const std::string& command = question.command;
  const bool is_path = command.find('/') != std::string::npos;
  const std::string where = is_path ? str("working directory ", printable(question.cwd))
                                    : str("PATH is ", printable(search_path, 1024));
  return str(printable(command), ": not found in the box (", where, ")",
             advice(command, others, question));
}

}  // namespace

const char* const kLookUp = R"(look() {
  at=
  case $1 in
    */*) [ -f "$1" ] || return; at=$1; [ -x "$1" ]; return ;;
  esac
  rest=$PATH:
  while [ "$rest" ]; do
    next=${rest%%:*}; rest=${rest#*:}
    next=${next:-.}/$1
    [ -f "$next" ] || continue
    at=${at:-$next}
    if [ -x "$next" ]; then at=$next; return 0; fi
  done
  return 1
}
printf '\n%s\n%s\n' caisson-look-up "$PATH"
if look "$0"; then
  printf 'found %s\n' "$at"
  exec head -c 4096 "$at"
fi
printf 'missing %s\n' "$at"
for other; do
  if look "$other"; then printf 'has %s\n' "$other"; fi
done)";

std::optional<LookUp> parse_look_up(std::string_view output) {
  const std::size_t marker = output.find(kMarker);
  if (marker == std::string_view::npos) return std::nullopt;
  output.remove_prefix(marker + kMarker.size());
  LookUp told;
  told.search_path = take_line(output);
  const std::string_view verdict = take_line(output);
  constexpr std::string_view kFound = "found ";
  constexpr std::string_view kMissing = "missing ";
  constexpr std::string_view kHas = "has ";
  if (verdict.starts_with(kFound)) {
    told.path = verdict.substr(kFound.size());
    told.executable = true;
    told.head = output;
    return told;
  }
  if (!verdict.starts_with(kMissing)) return std::nullopt;
  told.path = verdict.substr(kMissing.size());
  while (!output.empty()) {
    const std::string_view line = take_line(output);
    if (line.starts_with(kHas)) told.others.emplace_back(line.substr(kHas.size()));
  }
  return told;
}

std::vector<std::string> needs_of(std::string_view head) {
  if (head.starts_with("#!")) return needs_of_script(head);
  if (head.starts_with(ELFMAG)) return needs_of_program(head);
  return {};
}

std::vector<Substitute> substitutes_for(std::string_view command) {
  static const std::map<std::string_view, std::vector<Substitute>> kSubstitutes = {
      {"bash", {{"sh", "sh"}}},
      {"bun", {{"node", "node"}, {"npm", "npm"}}},
      {"bunx", {{"npx", "npx"}}},
      {"deno", {{"node", "node"}}},
      {"node", {{"nodejs", "nodejs"}, {"bun", "bun"}}},
      {"nodejs", {{"node", "node"}}},
      {"npm", {{"pnpm", "pnpm"}, {"yarn", "yarn"}}},
      {"npx", {{"npm", "npm exec"}, {"bunx", "bunx"}}},
      {"pip", {{"pip3", "pip3"}, {"uv", "uv pip"}, {"python3", "python3 -m pip"}}},
      {"pip3", {{"pip", "pip"}, {"uv", "uv pip"}, {"python3", "python3 -m pip"}}},
      {"pipx", {{"uvx", "uvx"}}},
      {"pnpm", {{"npm", "npm"}}},
      {"poetry", {{"uv", "uv"}, {"pip", "pip"}}},
      {"python", {{"python3", "python3"}}},
      {"uv", {{"pip", "pip"}, {"python3", "python3"}}},
      {"uvx", {{"uv", "uv tool run"}, {"pipx", "pipx run"}, {"python3", "python3"}}},
      {"yarn", {{"npm", "npm"}}},
  };
  std::string_view name = base_name(command);
  if (name.starts_with("python")) name = "python";  // python3.12, of a venv from elsewhere
  const auto found = kSubstitutes.find(name);
  return found == kSubstitutes.end() ? std::vector<Substitute>() : found->second;
}

Task<std::optional<std::string>> why_not_startable(backend::Box& box, CommandQuestion question) {
  const std::string& command = question.command;
  const std::optional<LookUp> told =
      co_await look_up(box, question, command, names_of(substitutes_for(command)));
  if (!told) co_return std::nullopt;
  if (told->path.empty()) co_return not_there(question, told->search_path, told->others);
  const std::string subject = printable(command);
  const std::string path = printable(told->path, 1024);
  if (!told->executable) {
    co_return str(subject, ": ", path, " is in the box and is not executable: give it the mode ",
                  "(chmod +x), or start it by its interpreter");
  }
  const std::vector<std::string> needs = needs_of(told->head);
  const bool is_script = told->head.starts_with("#!");
  if (needs.empty() || (!is_script && is_of_the_system(told->path))) co_return std::nullopt;
  const bool is_tool = needs.back().starts_with(model::kToolFiles);
  std::vector<std::string> others = needs;
  for (std::string& name : names_of(substitutes_for(is_tool ? command : needs.back()))) {
    others.push_back(std::move(name));
  }
  // Nothing has this name: what is asked for are the others.
  const std::optional<LookUp> there = co_await look_up(box, question, "/", std::move(others));
  if (!there) co_return std::nullopt;
  for (const std::string& need : needs) {
    if (std::ranges::find(there->others, need) != there->others.end()) continue;
    if (is_tool) co_return not_there(question, there->search_path, there->others);
    co_return str(subject, ": ", path, is_script ? " is run by " : " is loaded by ",
                  printable(need, 1024), ", which is not in the box",
                  advice(need, there->others, question));
  }
  co_return std::nullopt;
}

}  // namespace caisson::session
