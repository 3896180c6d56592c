#pragma once
#include <string>
#include <vector>

// Completion scripts for shells, from a description of the command line. Pure.
namespace caisson::cli {

// What an option or an argument wants to be completed with.
enum class ValueKind { none, text, path, directory, image, session, choice };

struct CompletedOption {
  std::vector<std::string> names;  // "-e", "--env"
  std::string description;
  std::string value_name;
  ValueKind value = ValueKind::none;  // none: a flag
  std::vector<std::string> choices;
  bool repeatable = false;
};

// A subcommand, or the program itself at the top.
struct CompletedCommand {
  std::string name;
  std::string description;
  bool runs_command = false;  // a command with words of its own follows "--"
  std::vector<CompletedOption> options;
  std::vector<CompletedOption> arguments;  // without names
  std::vector<CompletedCommand> subcommands;
};

std::string bash_completion(const CompletedCommand& program);
std::string zsh_completion(const CompletedCommand& program);
std::string fish_completion(const CompletedCommand& program);

}  // namespace caisson::cli
