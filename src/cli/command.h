#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/keeper.h"
#include "model/isolation.h"

// CLI11 takes seconds to compile: only the files that declare options include it.
namespace CLI {
class App;
}

namespace caisson::cli {

// What a backend is told by the command line.
struct BackendOptions {
  std::filesystem::path state_dir;
  std::set<model::Layer> allow_missing;
  std::vector<std::string> mount_roots = {};  // of the host, resolved; empty: anywhere
  std::string name = {};                      // what callers are told; empty: its own
  bool many_boxes = false;                    // not just one
  backend::Keeper* keeper = nullptr;          // for boxes that are to survive this process
  std::shared_ptr<backend::KeptEntry> inherited = nullptr;  // what this kind of backend left there
};

// A backend that is built in; main() names them.
struct BackendKind {
  std::string name;
  std::function<std::unique_ptr<backend::Backend>(boost::asio::any_io_executor, BackendOptions)>
      make;
};

// One run of the program: what the subcommands need, and what the chosen one wants to be done.
struct Invocation {
  const std::vector<BackendKind>& backends;
  std::vector<std::string> command;  // the words after "--"; none when it was not there
  bool has_command = false;          // "--" was there
  std::function<int()> work;         // set by the subcommand that was named; gives the exit code
};

// Each declares one subcommand, or a few that belong together, and leaves its work in the
// invocation when it is named.
void add_serve(CLI::App& program, Invocation& invocation);
void add_box(CLI::App& program, Invocation& invocation);
void add_exec(CLI::App& program, Invocation& invocation);
void add_sessions(CLI::App& program, Invocation& invocation);  // ls, inspect, rm
void add_stats(CLI::App& program, Invocation& invocation);
void add_start(CLI::App& program, Invocation& invocation);
void add_processes(CLI::App& program, Invocation& invocation);  // ps, signal, stop
void add_logs(CLI::App& program, Invocation& invocation);
void add_attach(CLI::App& program, Invocation& invocation);
void add_cp(CLI::App& program, Invocation& invocation);
void add_image(CLI::App& program, Invocation& invocation);
void add_langbot(CLI::App& program, Invocation& invocation);  // install, remove, check
void add_doctor(CLI::App& program, Invocation& invocation);
void add_config(CLI::App& program, Invocation& invocation);
void add_version(CLI::App& program, Invocation& invocation);
void add_completion(CLI::App& program, Invocation& invocation);

// SESSION and [ID], of subcommands that are about one process.
void add_process_arguments(CLI::App& app, std::string& session, std::string& process);

// Whether a command with words of its own follows "--" in this subcommand.
inline bool takes_command(std::string_view subcommand) {
  return subcommand == "exec" || subcommand == "start";
}

// Throws validation_error with the names of the ones that are built in.
const BackendKind& get_backend(const std::vector<BackendKind>& backends, const std::string& name);

std::string version_line();  // "caisson 0.1.0 (guest protocol 1, clang 16.0.6)"
std::string version_number();

}  // namespace caisson::cli
