#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "model/config.h"
#include "net/server.h"

namespace caisson::daemon {

// The socket in a state directory: whoever names the directory means the daemon that has it.
inline constexpr const char* kStateSocket = "caisson.sock";

// Where the daemon listens and whom it lets in.
struct ListenPlaces {
  std::filesystem::path state_dir;
  std::filesystem::path socket;  // of caisson.listen.socket, "auto"; empty: there is none
};

// Throws validation_error for an address that others reach and nothing guards, and for users that
// there are not.
net::ServerConfig server_config(const model::DaemonConfig& daemon, const ListenPlaces& places,
                                std::string token);

// The numbers of users of this host, given by name or number.
std::vector<uid_t> user_ids(const std::vector<std::string>& users);

}  // namespace caisson::daemon
