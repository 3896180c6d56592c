#include <unistd.h>

#include <CLI/App.hpp>
#include <boost/json/array.hpp>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/load_config.h"
#include "cli/option.h"
#include "cli/report.h"

namespace caisson::cli {

namespace {

namespace json = boost::json;

struct Request {
  std::optional<std::string> config;
  bool json = false;
};

// What there is to say about a configuration.
struct Verdict {
  std::optional<std::filesystem::path> file;
  std::optional<LoadedConfig> loaded;  // none: it cannot be used at all
  std::vector<std::string> problems;
};

Verdict judge(const Request& request) {
  const std::vector<std::string> environment = environment_entries();
  Verdict verdict;
  verdict.file = find_config_file(request.config, environment, ::geteuid() == 0);
  try {
    verdict.loaded = load_config(verdict.file, environment);
  } catch (const Error& error) {
    verdict.problems.emplace_back(error.what());
    return verdict;
  }
  const std::string& fault = verdict.loaded->config.box.admission.configuration_error;
  // The daemon starts with it and admits nobody, which is safe and not what anybody wants.
  if (!fault.empty()) verdict.problems.push_back(str("box.", fault));
  return verdict;
}

json::array to_json(const std::vector<std::string>& list) {
  json::array array;
  for (const std::string& text : list) array.emplace_back(decode_utf8(text));
  return array;
}

json::object to_json(const Verdict& verdict) {
  json::object object{{"ok", verdict.problems.empty()},
                      {"file", nullptr},
                      {"problems", to_json(verdict.problems)},
                      {"ignored", json::array()},
                      {"variables", json::array()},
                      {"config", nullptr}};
  if (verdict.file) object["file"] = decode_utf8(verdict.file->native());
  if (verdict.loaded) {
    object["ignored"] = to_json(verdict.loaded->config.ignored_fields);
    object["variables"] = to_json(verdict.loaded->variables);
    object["config"] = masked_json(verdict.loaded->config);
  }
  return object;
}

std::string describe(const Verdict& verdict) {
  std::string text;
  const auto line = [&text](std::string_view what, std::string_view detail) {
    text += str(what, printable(detail, 4096), "\n");
  };
  for (const std::string& problem : verdict.problems) line("problem: ", problem);
  if (verdict.loaded) {
    for (const std::string& field : verdict.loaded->config.ignored_fields) line("ignored: ", field);
    for (const std::string& name : verdict.loaded->variables) line("changed by: ", name);
  }
  const std::string subject = verdict.file ? verdict.file->native() : "no file, all defaults";
  line(verdict.problems.empty() ? "The configuration is good: " : "The configuration is not good: ",
       subject);
  return text;
}

int run_check(const Request& request) {
  const Verdict verdict = judge(request);
  if (request.json) {
    print(to_json(verdict));
  } else {
    print(describe(verdict));
  }
  return verdict.problems.empty() ? 0 : 1;
}

}  // namespace

void add_config(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("config", "The configuration of the daemon");
  app.require_subcommand(1);
  CLI::App& check = *app.add_subcommand("check", "Say what is wrong with it or ignored in it");
  const auto request = std::make_shared<Request>();
  add_text(check, "--config", request->config, "PATH",
           "The file (default: /etc/caisson/caisson.yaml for root and "
           "~/.config/caisson/caisson.yaml for others, if it is there)");
  add_json(check, request->json);
  check.footer(
      "Environment variables such as BOX__LOCAL__HOST_ROOT are taken into account. The exit code\n"
      "is 0 when the daemon can use it, and 1 when not.\n");
  check.callback(
      [request, &invocation] { invocation.work = [request] { return run_check(*request); }; });
}

}  // namespace caisson::cli
