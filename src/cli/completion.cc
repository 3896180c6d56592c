#include <CLI/App.hpp>
#include <memory>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/completion_script.h"
#include "cli/option.h"
#include "cli/report.h"
#include "model/isolation.h"

namespace caisson::cli {

namespace {

bool is_choice(const std::string& value_name) {
  return value_name.find('|') != std::string::npos &&
         value_name.find_first_of("[:") == std::string::npos;
}

// What the name of a value says about it.
void set_value(CompletedOption& option, const std::string& value_name) {
  option.value_name = value_name;
  option.value = ValueKind::text;
  if (is_choice(value_name)) {
    option.value = ValueKind::choice;
    for (const std::string_view choice : split(value_name, '|'))
      option.choices.emplace_back(choice);
  } else if (value_name.starts_with("LAYER")) {
    option.value = ValueKind::choice;
    for (const model::Layer layer : model::all_layers()) {
      option.choices.emplace_back(to_string(layer));
    }
  } else if (value_name == "DIR" || value_name == "HOST[:ro|rw]") {
    option.value = ValueKind::directory;
  } else if (value_name == "PATH" || value_name.starts_with("HOST:")) {
    option.value = ValueKind::path;
  } else if (value_name == "IMAGE") {
    option.value = ValueKind::image;
  } else if (value_name == "SESSION") {
    option.value = ValueKind::session;
  }
}

CompletedOption describe(const CLI::Option& source) {
  CompletedOption option;
  for (const std::string& name : source.get_snames()) option.names.push_back(str("-", name));
  for (const std::string& name : source.get_lnames()) option.names.push_back(str("--", name));
  option.description = source.get_description();
  option.repeatable = source.get_items_expected_max() > 1;
  const bool is_flag = source.get_items_expected_max() == 0;
  if (!is_flag) set_value(option, source.get_type_name());
  return option;
}

CompletedCommand describe(const CLI::App& source) {
  CompletedCommand command{.name = source.get_name(),
                           .description = source.get_description(),
                           .runs_command = takes_command(source.get_name())};
  for (const CLI::Option* option : source.get_options()) {
    auto& list = option->get_positional() ? command.arguments : command.options;
    list.push_back(describe(*option));
  }
  for (const CLI::App* sub : source.get_subcommands([](const CLI::App*) { return true; })) {
    command.subcommands.push_back(describe(*sub));
  }
  return command;
}

int run_completion(const CLI::App& program, const std::string& shell) {
  const CompletedCommand tree = describe(program);
  if (shell == "bash") {
    print(bash_completion(tree));
  } else if (shell == "zsh") {
    print(zsh_completion(tree));
  } else if (shell == "fish") {
    print(fish_completion(tree));
  } else {
    throw Error(ErrorCode::validation_error,
                str("completion: \"", printable(shell), "\" is not one of bash, zsh, fish"));
  }
  return 0;
}

}  // namespace

void add_completion(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("completion", "Print a completion script for a shell");
  const auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "The shell that will read it")
      ->required()
      ->type_name("bash|zsh|fish");
  app.footer(
      "To use it at once:\n"
      "  bash   source <(caisson completion bash)\n"
      "  zsh    source <(caisson completion zsh)\n"
      "  fish   caisson completion fish | source\n");
  app.callback([shell, &program, &invocation] {
    invocation.work = [shell, &program] { return run_completion(program, *shell); };
  });
}

}  // namespace caisson::cli
