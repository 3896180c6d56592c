#pragma once
#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/exec_options.h"

// The few kinds of options that subcommands have. Values are taken as text, whatever they look
// like, and judged by us: then every fault is told in the same words.
namespace caisson::cli {

// `--name VALUE`; the last one counts. The value's name is shown in the help, and completion reads
// it: "a|b" are choices, "DIR" a directory, "IMAGE" the name of an image.
CLI::Option* add_text(CLI::App& app, const std::string& names, std::optional<std::string>& target,
                      const std::string& value_name, const std::string& description);

// The same, as often as one likes.
CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<std::string>& target,
                      const std::string& value_name, const std::string& description);

// Options of several subcommands.
void add_json(CLI::App& app, bool& target);
void add_state(CLI::App& app, std::optional<std::string>& target);
// What a box is made of, except its memory.
void add_box_options(CLI::App& app, ExecOptions& options);
void add_allow_missing(CLI::App& app, std::vector<std::string>& target);

}  // namespace caisson::cli
