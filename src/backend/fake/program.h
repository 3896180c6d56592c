#pragma once
#include <memory>
#include <string>
#include <vector>

#include "async/task.h"
#include "backend/fake/files.h"
#include "backend/fake/machine.h"

namespace caisson::backend::fake {

// A program at work: what it runs on, the process it is, and its arguments.
struct Call {
  std::shared_ptr<Machine> machine;
  SimulatedPtr process;
  std::vector<std::string> argv;
};

// Returns the exit code. A process that is killed gets operation_aborted from whatever it waits
// for.
using Program = Task<int> (*)(Call call);

// The simulation of the program at this path; null when there is none.
Program find_program(const Files& files, const std::string& path);

// The whole life of a process: errors of the program become messages and exit codes, as they would.
Task<int> run_program(Program program, Call call);

// The programs, by file.
Task<int> run_shell(Call call);    // sh [-c SCRIPT | -lc SCRIPT | FILE]
Task<int> run_payload(Call call);  // caisson-payload VERB ARGS
Task<int> run_tool(Call call);     // true, cat, mkdir...: argv[0] says which

// Standard streams of a process. Each keeps its stream until it is done with it.
Task<void> print(SimulatedPtr process, std::string text);
Task<void> complain(SimulatedPtr process, std::string text);
Task<std::string> read_input(SimulatedPtr process);  // some bytes; none at the end

// `path` as the process sees it: relative to its working directory.
std::string absolute(const Simulated& process, const std::string& path);

// The value of a name in the process's environment; empty when it is not there.
std::string variable(const Simulated& process, std::string_view name);

}  // namespace caisson::backend::fake
