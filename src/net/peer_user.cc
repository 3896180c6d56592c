#include "net/peer_user.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "net/listener.h"
#include "net/server.h"

namespace caisson::net {

namespace {

constexpr uid_t kOverflow = 65534;

std::string content_of(const char* path) {
  try {
    return find_file_content(path).value_or("");
  } catch (const Error&) {
    return "";
  }
}

std::optional<uid_t> find_everybodys_id() {
  std::vector<std::string_view> words;
  const std::string map = content_of("/proc/self/uid_map");
  for (const std::string_view word : split(trim(map), ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  if (words.size() == 3 && words[0] == "0" && words[2] == "4294967295") return std::nullopt;
  const auto number = parse_integer(trim(content_of("/proc/sys/kernel/overflowuid")));
  return number ? static_cast<uid_t>(*number) : kOverflow;
}

std::optional<uid_t> connector_of(int unix_socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(unix_socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return std::nullopt;
  }
  return credentials.uid;
}

bool is_unix(int socket) {
  int family = AF_UNSPEC;
  socklen_t size = sizeof family;
  return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_UNIX;
}

}  // namespace

PeerUsers::PeerUsers() : everybody_(find_everybodys_id()) {}

std::optional<uid_t> PeerUsers::find(int socket) {
  std::optional<uid_t> uid;
  if (is_unix(socket)) {
    uid = connector_of(socket);
  } else if (const std::optional<Ends> ends = loopback_ends(socket)) {
    uid = table_.find_holder({.own = ends->other, .other = ends->own});
    // The two ports are the peer's for as long as our end of the connection lives. When that has
    // been reset, the next one who uses them may have been found.
    if (loopback_ends(socket) != ends) return std::nullopt;
  }
  return uid && uid == everybody_ ? std::nullopt : uid;
}

Peer PeerUsers::look_at(int socket, const ServerConfig& config, std::optional<gid_t> group) {
  Peer peer{.name = peer_of(socket)};
  if (!is_unix(socket) && config.without_token != WithoutToken::users) {
    if (config.without_token == WithoutToken::everybody) peer.trust = Trust::open;
    return peer;
  }
  peer.uid = find(socket);
  const bool trusted = (peer.uid && is_trusted_user(*peer.uid, config.users)) ||
                       (group && is_of_group(socket, *group));
  if (trusted) peer.trust = Trust::user;
  return peer;
}

bool is_of_group(int socket, gid_t group) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return false;
  if (credentials.gid == group) return true;
  std::vector<gid_t> groups(64);
  for (;;) {
    size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0) break;
    if (errno != ERANGE) return false;
    groups.resize(size / sizeof(gid_t));  // as many as there are
  }
  groups.resize(size / sizeof(gid_t));
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

bool is_trusted_user(uid_t uid, const std::vector<uid_t>& named) {
  return uid == 0 || uid == ::geteuid() ||
         std::find(named.begin(), named.end(), uid) != named.end();
}

}  // namespace caisson::net
