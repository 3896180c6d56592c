#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/langbot_text.h"

namespace caisson::cli {

namespace {

namespace fs = std::filesystem;

// An interpreter, or the environment that it belongs to.
fs::path interpreter(const fs::path& place) {
  return fs::is_directory(place) ? place / "bin" / "python" : place;
}

// An interpreter runs what lies beside it: whoever owns an environment would run that as root.
void refuse_of_others(const std::string& python, const std::string& action,
                      const std::string& place) {
  struct stat info {};
  check_syscall(python, ::lstat(python.c_str(), &info));
  if (::geteuid() != 0 || info.st_uid == 0) return;
  throw Error(ErrorCode::forbidden, str(python, " belongs to user ", info.st_uid,
                                        ", who could have root run anything: ", "sudo -u '#",
                                        info.st_uid, "' caisson langbot ", action, " ", place));
}

// The interpreter does the work, in the place of this process: it alone knows where its packages
// are and whether what was put there is called. The script comes from memory and is a file to it.
int run(const std::string& action, const std::string& place) {
  const std::string python = interpreter(place).native();
  refuse_of_others(python, action, place);
  const std::string self = fs::read_symlink("/proc/self/exe").native();
  const UniqueFd script =
      sealed_memory_file("caisson_langbot.py", std::as_bytes(std::span(kLangbotText)));
  check_syscall("the script", ::fcntl(script.get(), F_SETFD, 0));
  std::vector<std::string> words = {python, "-I", str("/proc/self/fd/", script.get()), action,
                                    self};
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return check_syscall(python, ::execv(python.c_str(), argv.data()));
}

void add_action(CLI::App& langbot, const std::string& action, const std::string& description,
                const std::shared_ptr<std::string>& place, Invocation& invocation) {
  CLI::App& app = *langbot.add_subcommand(action, description);
  app.add_option("ENVIRONMENT", *place, "The environment LangBot runs in, or its interpreter")
      ->required()
      ->type_name("PATH");
  app.callback([=, &invocation] { invocation.work = [=] { return run(action, *place); }; });
}

constexpr const char* kFooter =
    R"(LangBot starts its Box runtime with its own interpreter and has no setting for the command. This
puts two files beside its packages that make the interpreter start this program instead, when it is
told to start the Box runtime and only then.

Examples:
  caisson langbot install /opt/langbot/.venv
  caisson langbot check /opt/langbot/.venv/bin/python
)";

}  // namespace

void add_langbot(CLI::App& program, Invocation& invocation) {
  CLI::App& app =
      *program.add_subcommand("langbot", "Have LangBot start this program as its Box runtime");
  app.require_subcommand(1);
  const auto place = std::make_shared<std::string>();
  add_action(app, "install", "From now on LangBot starts this program", place, invocation);
  add_action(app, "remove", "From now on LangBot starts its own", place, invocation);
  add_action(app, "check", "Whether it does; else the exit code is 1", place, invocation);
  app.footer(kFooter);
}

}  // namespace caisson::cli
