#include "cli/program.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "cli/report.h"

namespace caisson::cli {

namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::validation_error, sentence);
}

// As the library writes it, and what it cannot know: that a command follows the options.
class Formatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (!takes_command(app->get_name())) return usage;
    return str(trim(usage), " -- CMD [ARGS...]\n");
  }
};

// "caisson image import", down to the subcommand that was named last.
const CLI::App& innermost(const CLI::App& app, std::string& path) {
  path += str(path.empty() ? "" : " ", app.get_name());
  const std::vector<CLI::App*> named = app.get_subcommands();
  return named.empty() ? app : innermost(*named.front(), path);
}

std::vector<std::string> names_of_subcommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

// What is left over after the library took what it knows.
void refuse_extras(const CLI::App& program) {
  const std::vector<std::string> extras = program.remaining(true);
  if (extras.empty()) return;
  std::string path;
  const CLI::App& app = innermost(program, path);
  const std::string extra = printable(extras.front());
  const std::string help = str("; see ", path, " --help");
  if (extra.starts_with('-') && extra != "-") refuse(str("unknown option ", extra, help));
  if (takes_command(app.get_name())) {
    refuse(str(app.get_name(), ": write the command behind --, as in: ", path, " -- ", extra));
  }
  const std::vector<std::string> names = names_of_subcommands(app);
  if (!names.empty()) {
    refuse(str("unknown subcommand \"", extra, "\" of ", path, ": there are ", join(names, ", ")));
  }
  refuse(str("unexpected argument \"", extra, "\"", help));
}

// One line of our own words for each way in which the library refuses.
[[noreturn]] void refuse_as_we_say(const CLI::App& program, const CLI::ParseError& error) {
  refuse_extras(program);
  std::string path;
  const CLI::App& app = innermost(program, path);
  const std::string help = str("; see ", path, " --help");
  const std::string_view what = error.what();
  const std::vector<std::string> names = names_of_subcommands(app);
  if (error.get_name() == "RequiredError" && !names.empty()) {
    refuse(str(path, " needs a subcommand: ", join(names, ", "), help));
  }
  if (error.get_name() == "RequiredError") {
    refuse(str(path, " needs ", what.substr(0, what.find(' ')), help));
  }
  if (error.get_name() == "ArgumentMismatch") {
    refuse(str(what.substr(0, what.find(':')), ": a value is needed", help));
  }
  refuse(str(what, help));
}

}  // namespace

const BackendKind& get_backend(const std::vector<BackendKind>& backends, const std::string& name) {
  std::vector<std::string> names;
  for (const BackendKind& kind : backends) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  refuse(str("--backend: there is no backend \"", printable(name),
             "\" in this build; there is: ", join(names, ", ")));
}

Program::Program(std::vector<std::string> arguments, const std::vector<BackendKind>& backends)
    : invocation_{.backends = backends} {
  // The command behind "--" is taken as it is; nothing in it is an option of ours.
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  invocation_.has_command = end != arguments.end();
  if (invocation_.has_command) invocation_.command.assign(end + 1, arguments.end());
  arguments.erase(end, arguments.end());
  arguments_ = std::move(arguments);
  wants_json_ = std::find(arguments_.begin(), arguments_.end(), "--json") != arguments_.end();
}

Program::~Program() = default;

int Program::run() {
  app_ = std::make_unique<CLI::App>("Runs untrusted commands in boxes.", "caisson");
  CLI::App& app = *app_;
  app.formatter(std::make_shared<Formatter>());
  app.get_formatter()->column_width(32);
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag(
      "--version", [] { return version_line(); }, "Print the version");
  // Exactly one: the library then does not take an argument for the name of another subcommand.
  app.require_subcommand(1);
  app.allow_extras();  // inherited; what is left over is refused in our words
  add_exec(app, invocation_);
  add_serve(app, invocation_);
  add_box(app, invocation_);
  add_sessions(app, invocation_);
  add_stats(app, invocation_);
  add_start(app, invocation_);
  add_processes(app, invocation_);
  add_logs(app, invocation_);
  add_attach(app, invocation_);
  add_cp(app, invocation_);
  add_image(app, invocation_);
  add_langbot(app, invocation_);
  add_doctor(app, invocation_);
  add_config(app, invocation_);
  add_version(app, invocation_);
  add_completion(app, invocation_);
  try {
    std::vector<std::string> reversed(arguments_.rbegin(), arguments_.rend());
    app.parse(std::move(reversed));
  } catch (const CLI::CallForVersion& version) {
    print(str(version.what(), "\n"));
    return 0;
  } catch (const CLI::Success&) {
    print(app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    refuse_as_we_say(app, error);
  }
  refuse_extras(app);
  if (invocation_.has_command && !takes_command(app.get_subcommands().front()->get_name())) {
    refuse("only exec and start take a command behind --");
  }
  return invocation_.work();
}

}  // namespace caisson::cli
