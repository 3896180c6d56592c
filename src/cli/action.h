#pragma once
#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/daemon_client.h"

namespace caisson::cli {

// A subcommand that asks a daemon, which the request's member `daemon` names; the caller adds its
// other options. `work` is given the request when the subcommand is named.
template <typename Request>
CLI::App& add_action(CLI::App& program, const std::string& name, const std::string& description,
                     const std::shared_ptr<Request>& request, int (*work)(Request&),
                     Invocation& invocation) {
  CLI::App& app = *program.add_subcommand(name, description);
  add_daemon_options(app, request->daemon);
  app.callback([=, &invocation] { invocation.work = [=] { return work(*request); }; });
  return app;
}

}  // namespace caisson::cli
