#include "daemon/listen.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::daemon {

namespace {

constexpr const char* kGroup = "caisson";  // whose members may use root's daemon
constexpr std::size_t kEntryBytes = 64u << 10;

// nullopt: there is no such group, or this user cannot give a socket to it.
std::optional<gid_t> find_group() {
  if (::geteuid() != 0) return std::nullopt;
  group entry{};
  group* found = nullptr;
  std::vector<char> buffer(kEntryBytes);
  if (::getgrnam_r(kGroup, &entry, buffer.data(), buffer.size(), &found) != 0) return std::nullopt;
  return found == nullptr ? std::nullopt : std::optional(entry.gr_gid);
}

std::optional<uid_t> find_user(const std::string& name) {
  if (const auto number = parse_integer(name)) {
    const bool fits = *number >= 0 && *number < std::numeric_limits<uid_t>::max();
    return fits ? std::optional(static_cast<uid_t>(*number)) : std::nullopt;
  }
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(kEntryBytes);
  if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0) {
    return std::nullopt;
  }
  return found == nullptr ? std::nullopt : std::optional(entry.pw_uid);
}

net::WithoutToken without_token(const model::DaemonConfig& daemon) {
  if (model::needs_token(daemon)) return net::WithoutToken::nobody;
  return daemon.token_required ? net::WithoutToken::everybody : net::WithoutToken::users;
}

std::vector<net::UnixSocket> unix_sockets(const model::DaemonConfig& daemon,
                                          const ListenPlaces& places) {
  std::vector<net::UnixSocket> sockets = {
      {.path = (places.state_dir / kStateSocket).native(), .dispensable = true}};
  const bool automatic = daemon.listen_socket == "auto";
  const std::string path = automatic ? places.socket.native() : daemon.listen_socket;
  if (!path.empty() && path != "none") {
    // Another daemon of this user may have the common one, and has a right to it.
    sockets.push_back({.path = path, .group = find_group(), .dispensable = automatic});
  }
  return sockets;
}

}  // namespace

std::vector<uid_t> user_ids(const std::vector<std::string>& users) {
  std::vector<uid_t> ids;
  for (const std::string& user : users) {
    const std::optional<uid_t> id = find_user(user);
    if (!id) {
      throw Error(ErrorCode::validation_error,
                  str("caisson.allowed_users: there is no user \"", printable(user),
                      "\" on this host; make it or take it off the list"));
    }
    ids.push_back(*id);
  }
  return ids;
}

net::ServerConfig server_config(const model::DaemonConfig& daemon, const ListenPlaces& places,
                                std::string token) {
  if (!model::needs_token(daemon) && !model::is_loopback(daemon.listen_host)) {
    throw Error(ErrorCode::validation_error,
                str("caisson.listen.host ", daemon.listen_host,
                    " can be reached by others, and caisson.token_required is false: whoever "
                    "connects could run commands here. Require the token, or listen on 127.0.0.1"));
  }
  net::ServerConfig config;
  config.host = daemon.listen_host;
  config.port = static_cast<std::uint16_t>(daemon.listen_port);
  config.unix_sockets = unix_sockets(daemon, places);
  config.host_names = daemon.allowed_hosts;
  config.token = std::move(token);
  config.without_token = without_token(daemon);
  config.users = user_ids(daemon.allowed_users);
  config.farewell = "Box runtime shutting down";  // as LangBot's own runtime says
  config.max_connections = static_cast<std::size_t>(daemon.max_connections);
  config.max_connections_per_peer = static_cast<std::size_t>(daemon.max_connections_per_peer);
  config.body_deadline = std::chrono::seconds(daemon.message_deadline_sec);
  return config;
}

}  // namespace caisson::daemon
