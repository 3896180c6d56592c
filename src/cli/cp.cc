#include "cli/cp.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/option.h"
#include "cli/transfer.h"

namespace caisson::cli {

namespace {

struct Request {
  DaemonOptions daemon;
  std::string source;
  std::string target;
  bool recursive = false;
  bool json = false;
};

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::validation_error, sentence);
}

int run_copy(const Request& request) {
  const Place source = parse_place(request.source);
  const Place target = parse_place(request.target);
  if (source.session.has_value() == target.session.has_value()) {
    refuse(
        "cp: one of the two must be NAME:PATH in a session, the other a path of yours; a path "
        "of yours with a colon is written ./PATH");
  }
  if (request.json && request.target == "-") {
    refuse("--json: standard output is taken by the copy");
  }
  exit_on_signals();
  return run_with_daemon(request.daemon, [&](DaemonClient& client) -> Task<int> {
    const TransferOptions options{.recursive = request.recursive,
                                  .json = request.json,
                                  .progress = !request.json && request.target != "-"};
    Transfer transfer(client, source.session ? *source.session : *target.session, options);
    if (target.session) co_return co_await transfer.upload(source.path, target.path);
    co_return co_await transfer.download(source.path, target.path);
  });
}

}  // namespace

Place parse_place(std::string_view text) {
  const bool ours = text.starts_with('/') || text.starts_with("./") || text.starts_with("../");
  std::size_t colon = text.find(":/");
  if (colon == std::string_view::npos) colon = text.find(':');
  if (ours || colon == std::string_view::npos) {
    if (text.empty()) refuse("cp: a path must not be empty");
    return {.session = std::nullopt, .path = std::string(text)};
  }
  const std::string_view path = text.substr(colon + 1);
  return {.session = session_name(text.substr(0, colon)),
          .path = path.empty() ? "." : std::string(path)};
}

std::string base_name(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, std::max<std::size_t>(slash, 1)));
}

std::string join_path(std::string_view directory, std::string_view name) {
  return str(directory, directory.ends_with('/') ? "" : "/", name);
}

void add_cp(CLI::App& program, Invocation& invocation) {
  CLI::App& app = *program.add_subcommand("cp", "Copy files into and out of sessions");
  const auto request = std::make_shared<Request>();
  app.add_option("SRC", request->source, "A path of yours, - for standard input, or NAME:PATH")
      ->required()
      ->type_name("PATH");
  app.add_option("DST", request->target, "A path of yours, - for standard output, or NAME:PATH")
      ->required()
      ->type_name("PATH");
  app.add_flag("-r,--recursive", request->recursive, "Copy directories with all that is in them");
  add_daemon_options(app, request->daemon);
  add_json(app, request->json);
  app.footer(
      "One of the two is NAME:PATH, in a session of the daemon; a relative PATH starts in its\n"
      "workspace. Into a directory that exists, a copy goes under its own name. Of links and\n"
      "empty directories nothing is copied; notes name them, and the exit code is then 1.\n"
      "\n"
      "Examples:\n"
      "  caisson cp data.csv build:\n"
      "  caisson cp -r build:/workspace/out .\n"
      "  tar c src | caisson cp - build:/tmp/src.tar\n");
  app.callback(
      [request, &invocation] { invocation.work = [request] { return run_copy(*request); }; });
}

}  // namespace caisson::cli
