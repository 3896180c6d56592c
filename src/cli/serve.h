#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "daemon/serve.h"

namespace caisson::cli {

// How the daemon is to be run: `caisson serve`, and `caisson box`, which takes LangBot's words.
struct ServeRequest {
  std::optional<std::string> host;
  std::optional<std::string> port;
  std::optional<std::string> state;
  std::optional<std::string> config;
  bool replace = false;
  bool stdio_control = false;
  bool open_to_hosts = false;  // without an address: every one, when hosts must show a token
};

// Until it has ended; gives the exit code.
int run_daemon(const ServeRequest& request, const std::vector<BackendKind>& backends);

// What LangBot's own variables say. Throws validation_error for a secret that is none.
daemon::LangbotOptions langbot_options(const std::vector<std::string>& environment);

}  // namespace caisson::cli
