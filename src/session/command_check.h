#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "backend/box.h"

// Whether a login shell in a box can start a command, told before it tries: a server that is not
// there would only be one that ended at once, and its client would be told no reason.
namespace caisson::session {

struct CommandQuestion {
  std::string command;                // as the shell gets it
  std::vector<std::string> env = {};  // the whole environment, "NAME=value"
  std::string cwd = "/workspace";
  // For what the refusal advises.
  bool default_image = true;      // of the box
  std::string tool_problem = {};  // why a tool could not be fetched
};

// Why the command cannot be started: it is not there, is not executable, or what interprets it is
// missing; with the places that were looked at, and what is there instead. nullopt when it can be
// started, and when the box does not tell: it is not trusted, so the answer is advice and no more.
Task<std::optional<std::string>> why_not_startable(backend::Box& box, CommandQuestion question);

// The parts of it.

// Run as `sh -lc kLookUp COMMAND OTHER...`: finds the command as the shell does.
extern const char* const kLookUp;

// What that script said.
struct LookUp {
  std::string search_path;          // PATH
  std::string path;                 // where there is something by the name; empty: nowhere
  bool executable = false;          //
  std::string head;                 // the beginning of one that is
  std::vector<std::string> others;  // that are there; asked for when the command cannot be executed
  bool operator==(const LookUp&) const = default;
};
// nullopt when it is not the script's output. A profile may have written something before it.
std::optional<LookUp> parse_look_up(std::string_view output);

// What a file that begins like this needs to be executed: the interpreter of a script, with the
// program if that is env(1) and what one of the tools runs (model/tools.h), or the dynamic loader.
std::vector<std::string> needs_of(std::string_view head);

// Commands that do the work of another, and how they are called then.
struct Substitute {
  std::string name;
  std::string call;  // "uv tool run"
};
std::vector<Substitute> substitutes_for(std::string_view command);

}  // namespace caisson::session
