#include "cli/completion_script.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "base/shell.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::cli {

namespace {

// The names of images and sessions are asked for when they are needed.
constexpr std::string_view kListImages = "caisson image ls --quiet 2>/dev/null";
constexpr std::string_view kListSessions = "caisson ls --quiet 2>/dev/null";

// Calls `visit` for the command and everything below it, with the path of each ("caisson image").
using Visit = std::function<void(const CompletedCommand&, const std::string& path)>;
void walk(const CompletedCommand& command, const Visit& visit, const std::string& above = "") {
  const std::string path = above.empty() ? command.name : str(above, " ", command.name);
  visit(command, path);
  for (const CompletedCommand& sub : command.subcommands) walk(sub, visit, path);
}

// `case` branches that follow the words of a command line from one path to the next.
std::string bash_steps(const CompletedCommand& program) {
  std::string steps;
  walk(program, [&](const CompletedCommand&, const std::string& path) {
    if (path == program.name) return;
    steps += str("      ", shell_quoted(path), ") path=", shell_quoted(path), " ;;\n");
  });
  return steps;
}

// The shell command that fills COMPREPLY with values of this kind.
std::string bash_values(const CompletedOption& option) {
  switch (option.value) {
    case ValueKind::choice:
      return str("_caisson_reply -W ", shell_quoted(join(option.choices, " ")));
    case ValueKind::path:
      return "_caisson_reply -f";
    case ValueKind::directory:
      return "_caisson_reply -d";
    case ValueKind::image:
      return str("_caisson_reply -W \"$(", kListImages, ")\"");
    case ValueKind::session:
      return "_caisson_sessions";
    case ValueKind::text:
    case ValueKind::none:
      break;
  }
  return ":";
}

std::string bash_option_values(const CompletedCommand& program) {
  std::string branches;
  walk(program, [&](const CompletedCommand& command, const std::string& path) {
    for (const CompletedOption& option : command.options) {
      if (option.value == ValueKind::none) continue;
      std::vector<std::string> patterns;
      patterns.reserve(option.names.size());
      for (const std::string& name : option.names)
        patterns.push_back(shell_quoted(str(path, " ", name)));
      branches += str("    ", join(patterns, " | "), ") ", bash_values(option), "; return ;;\n");
    }
  });
  return branches;
}

std::string bash_words(const CompletedCommand& program) {
  std::string branches;
  walk(program, [&](const CompletedCommand& command, const std::string& path) {
    std::vector<std::string> words;
    for (const CompletedOption& option : command.options) {
      words.insert(words.end(), option.names.begin(), option.names.end());
    }
    if (command.runs_command) words.emplace_back("--");
    std::string others = command.runs_command ? "_caisson_reply -W --" : ":";
    // Which argument it is takes more than bash knows: the first that has something to offer.
    for (const CompletedOption& argument : command.arguments) {
      if (argument.value == ValueKind::text) continue;
      others = bash_values(argument);
      break;
    }
    std::vector<std::string> names;
    names.reserve(command.subcommands.size());
    for (const CompletedCommand& sub : command.subcommands) names.push_back(sub.name);
    if (!names.empty()) others = str("_caisson_reply -W ", shell_quoted(join(names, " ")));
    branches +=
        str("    ", shell_quoted(path), ")\n      if [[ $current == -* ]]; then _caisson_reply -W ",
            shell_quoted(join(words, " ")), "; else ", others, "; fi ;;\n");
  });
  return branches;
}

// In a specification of _arguments, inside single quotes.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out.push_back('\\');
    if (c == '\'') out += "'\\'";
    out.push_back(c);
  }
  return out;
}

std::string zsh_values(const CompletedOption& option) {
  const std::string name = option.value_name.empty() ? "value" : option.value_name;
  switch (option.value) {
    case ValueKind::choice:
      return str(":", zsh_text(name), ":(", join(option.choices, " "), ")");
    case ValueKind::path:
      return str(":", zsh_text(name), ":_files");
    case ValueKind::directory:
      return str(":", zsh_text(name), ":_files -/");
    case ValueKind::image:
      return str(":", zsh_text(name), ":($(", kListImages, "))");
    case ValueKind::session:
      return str(":", zsh_text(name), ":($(", kListSessions, "))");
    case ValueKind::text:
      return str(":", zsh_text(name), ": ");
    case ValueKind::none:
      break;
  }
  return "";
}

std::string zsh_option(const CompletedOption& option) {
  const std::string tail = str("'[", zsh_text(option.description), "]", zsh_values(option), "'");
  std::string exclusive;
  if (option.repeatable) {
    exclusive = "'*'";
  } else if (option.names.size() > 1) {
    exclusive = str("'(", join(option.names, " "), ")'");
  }
  if (option.names.size() == 1) return str(exclusive, option.names.front(), tail);
  return str(exclusive, "{", join(option.names, ","), "}", tail);
}

std::string zsh_function_name(std::string path) {
  std::replace(path.begin(), path.end(), ' ', '_');
  return str("_", path);
}

std::string zsh_function(const CompletedCommand& command, const std::string& path) {
  std::string out = str(zsh_function_name(path), "() {\n  local state line\n  _arguments -C -s -S");
  for (const CompletedOption& option : command.options) out += str(" \\\n    ", zsh_option(option));
  for (std::size_t i = 0; i < command.arguments.size(); ++i) {
    const CompletedOption& argument = command.arguments[i];
    const std::string place = argument.repeatable ? "*" : str(i + 1);
    out += str(" \\\n    '", place, zsh_values(argument), "'");
  }
  if (command.runs_command) {
    out += " \\\n    '(-)1:command:_command_names -e' \\\n    '*::argument:_normal'";
  }
  if (command.subcommands.empty()) return out + "\n}\n\n";
  std::string names;
  std::string branches;
  for (const CompletedCommand& sub : command.subcommands) {
    names += str(names.empty() ? "" : " ", sub.name, "\\:\"", zsh_text(sub.description), "\"");
    branches += str("    ", sub.name, ") ", zsh_function_name(str(path, " ", sub.name)), " ;;\n");
  }
  out += str(" \\\n    '1:subcommand:((", names, "))' \\\n    '*::argument:->next'\n");
  return str(out, "  [[ $state == next ]] && case $line[1] in\n", branches, "  esac\n}\n\n");
}

std::string fish_values(const CompletedOption& option) {
  switch (option.value) {
    case ValueKind::choice:
      return str(" -x -a ", shell_quoted(join(option.choices, " ")));
    case ValueKind::path:
      return " -r -F";
    case ValueKind::directory:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::image:
      return str(" -x -a '(", kListImages, ")'");
    case ValueKind::session:
      return str(" -x -a '(", kListSessions, ")'");
    case ValueKind::text:
      return " -x";
    case ValueKind::none:
      break;
  }
  return "";
}

std::string fish_lines(const CompletedCommand& command, const std::string& path) {
  const std::string start =
      str("complete -c caisson -n ", shell_quoted(str("__caisson_at \"", path, "\"")));
  std::string out;
  for (const CompletedOption& option : command.options) {
    out += start;
    for (const std::string& name : option.names) {
      const bool is_long = name.starts_with("--");
      out += str(is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
    }
    out += str(fish_values(option), " -d ", shell_quoted(option.description), "\n");
  }
  for (const CompletedOption& argument : command.arguments) {
    if (argument.value != ValueKind::text) out += str(start, fish_values(argument), "\n");
  }
  for (const CompletedCommand& sub : command.subcommands) {
    out += str(start, " -x -a ", sub.name, " -d ", shell_quoted(sub.description), "\n");
  }
  return out;
}

}  // namespace

std::string bash_completion(const CompletedCommand& program) {
  return str(R"(# bash completion for caisson; made by `caisson completion bash`
_caisson_reply() {
  [[ $1 == -f || $1 == -d ]] && compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$@" -- "$current")
}

# Names come from anywhere: compgen -W would run what is in them.
_caisson_sessions() {
  local name
  while IFS= read -r name; do
    [[ $name == "$current"* ]] || continue
    printf -v name %q "$name"
    COMPREPLY+=("$name")
  done < <()",
             kListSessions, R"()
}

_caisson() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} path=caisson i
  COMPREPLY=()
  # --name=value comes as three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      elif ((COMP_CWORD == i + 1)); then
        _caisson_reply -c
      else
        _caisson_reply -f
      fi
      return
    fi
    case "$path ${COMP_WORDS[i]}" in
)",
             bash_steps(program), R"(    esac
  done
  case "$path $previous" in
)",
             bash_option_values(program), R"(  esac
  case "$path" in
)",
             bash_words(program), R"(  esac
}

complete -F _caisson caisson
)");
}

std::string zsh_completion(const CompletedCommand& program) {
  std::string out =
      "#compdef caisson\n# zsh completion for caisson; made by `caisson completion zsh`\n\n";
  walk(program, [&](const CompletedCommand& command, const std::string& path) {
    out += zsh_function(command, path);
  });
  return out + R"(if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _caisson "$@"
else
  compdef _caisson caisson
fi
)";
}

std::string fish_completion(const CompletedCommand& program) {
  std::string steps;
  std::string lines;
  walk(program, [&](const CompletedCommand& command, const std::string& path) {
    if (path != program.name) {
      steps += str("            case ", shell_quoted(path), "\n                set path ",
                   shell_quoted(path), "\n");
    }
    lines += fish_lines(command, path);
    if (command.runs_command) {
      steps += str("            case ", shell_quoted(str(path, " --")),
                   "\n                set path --\n");
    }
  });
  return str(R"(# fish completion for caisson; made by `caisson completion fish`
function __caisson_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l path caisson
    for word in $words
        switch "$path $word"
)",
             steps, R"(        end
    end
    test "$path" = "$argv[1]"
end

complete -c caisson -f
complete -c caisson -n '__caisson_at "--"' -F -a '(__fish_complete_command)'
)",
             lines);
}

}  // namespace caisson::cli
