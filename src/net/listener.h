#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace caisson::net {

// A socket that clients connect to. Non-blocking.
class Listener {
 public:
  // A numeric address or "localhost"; port 0 takes a free one.
  static Listener tcp(const std::string& host, std::uint16_t port);
  // Mode 0600, or 0660 and the group's. The directory is this user's, nobody else may write to it,
  // and it is made when there is none; the group may enter it and no more. A socket that nobody
  // listens on any more is replaced; one that somebody does is not, also when several daemons
  // come for it at once: a lock on PATH.lock decides, for as long as the listener lives.
  static Listener unix_socket(const std::string& path, std::optional<gid_t> group = {});

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener();  // removes the unix socket it made

  int fd() const { return fd_.get(); }
  std::uint16_t port() const { return port_; }
  bool is_unix() const { return !path_.empty(); }
  const std::string& path() const { return path_; }  // of a unix socket; empty for others
  // Nobody can connect any more.
  void close();

  // The next client, or an invalid descriptor with errno.
  UniqueFd accept() const;

 private:
  Listener(UniqueFd fd, std::uint16_t port, std::string path, UniqueFd lock = {});

  UniqueFd fd_;
  std::uint16_t port_ = 0;
  std::string path_;
  UniqueFd lock_;  // of the path
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// Who has connected: "127.0.0.1", "2001:db8:1:2::/64" (the part one subscriber is given) or "unix".
std::string peer_of(int socket);

// Whether it has connected from this host: by loopback or by a unix socket.
bool is_local_peer(int socket);

}  // namespace caisson::net
