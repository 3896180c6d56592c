#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"

namespace caisson::cli {

// The command line: reads the arguments, finds the subcommand, does its work.
class Program {
 public:
  // `arguments` without the program's name. Nothing is judged yet.
  Program(std::vector<std::string> arguments, const std::vector<BackendKind>& backends);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  // The exit code. Throws validation_error, naming the option, when the arguments make no sense.
  int run();

  // Whether errors are to be told as JSON: known also when the arguments make no sense.
  bool wants_json() const { return wants_json_; }

 private:
  std::vector<std::string> arguments_;  // up to "--"
  bool wants_json_ = false;
  Invocation invocation_;
  std::unique_ptr<CLI::App> app_;
};

}  // namespace caisson::cli
