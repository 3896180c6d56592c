#include "net/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/str.h"

namespace caisson::net {

namespace {

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress ip_address(std::string host, std::uint16_t port) {
  if (host == "localhost") host = "127.0.0.1";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  SocketAddress address;
  sockaddr_in four{.sin_family = AF_INET, .sin_port = htons(port)};
  sockaddr_in6 six{.sin6_family = AF_INET6, .sin6_port = htons(port)};
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    std::memcpy(&address.storage, &four, sizeof four);
    address.size = sizeof four;
  } else if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    std::memcpy(&address.storage, &six, sizeof six);
    address.size = sizeof six;
  } else {
    throw Error(ErrorCode::validation_error,
                str("cannot listen on \"", host, "\": give a numeric address such as 127.0.0.1"));
  }
  return address;
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX};
  if (path.size() >= sizeof address.sun_path) {
    throw Error(ErrorCode::validation_error,
                str("cannot use the socket ", path, ": its path has more than ",
                    sizeof address.sun_path - 1, " bytes; choose a shorter one"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

[[noreturn]] void cannot_listen(const std::string& where, int error_number) {
  const std::string_view hint =
      error_number == EADDRINUSE ? "; stop the program that uses it or choose another one" : "";
  throw Error(ErrorCode::system_error,
              str("cannot listen on ", where, ": ", error_text(error_number), hint));
}

void prepare_directory(const std::filesystem::path& directory, std::optional<gid_t> group) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    throw SystemError(str("make directory ", directory.native()), errno);
  }
  const UniqueFd opened(
      check_syscall(directory.native(),
                    ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
  struct stat status {};
  check_syscall(directory.native(), ::fstat(opened.get(), &status));
  if (status.st_uid != ::geteuid() || (status.st_mode & 0022) != 0) {
    throw Error(ErrorCode::validation_error,
                str("cannot listen in ", directory.native(),
                    ": it must be a directory of this user that nobody else can write to; choose "
                    "another one or run chmod 0700"));
  }
  // A directory that others may read is the operator's, and stays as it is.
  if (group && (status.st_mode & 0077 & ~0010u) == 0) {
    check_syscall(directory.native(), ::fchown(opened.get(), static_cast<uid_t>(-1), *group));
    check_syscall(directory.native(), ::fchmod(opened.get(), 0710));
  }
}

// Never removed: a lock on a file that has lost its name protects nothing.
UniqueFd lock_path(const std::string& path) {
  const std::string name = path + ".lock";
  UniqueFd lock(
      check_syscall(name, ::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) throw SystemError(name, errno);
  cannot_listen(path, EADDRINUSE);
}

// Removes the socket file of a listener that is gone.
void remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    throw SystemError(path, errno);
  }
  if (!S_ISSOCK(status.st_mode)) cannot_listen(path, EEXIST);
  const UniqueFd probe(check_syscall("make a socket", ::socket(AF_UNIX, kSocketFlags, 0)));
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(probe.get(), raw, sizeof address) == 0 || errno == EAGAIN) {
    cannot_listen(path, EADDRINUSE);
  }
  if (errno != ECONNREFUSED) cannot_listen(path, errno);
  check_syscall(path, ::unlink(path.c_str()));
}

}  // namespace

Listener::Listener(UniqueFd fd, std::uint16_t port, std::string path, UniqueFd lock)
    : fd_(std::move(fd)), port_(port), path_(std::move(path)), lock_(std::move(lock)) {
  if (path_.empty()) return;
  struct stat status {};
  check_syscall(path_, ::lstat(path_.c_str(), &status));
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

Listener::Listener(Listener&& other) noexcept
    : fd_(std::move(other.fd_)),
      port_(other.port_),
      path_(std::exchange(other.path_, {})),
      lock_(std::move(other.lock_)),
      device_(other.device_),
      inode_(other.inode_) {}

Listener::~Listener() {
  close();
}

void Listener::close() {
  fd_.reset();
  // Another listener may have taken the path meanwhile; its file is not ours to remove.
  struct stat status {};
  if (!path_.empty() && ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
      status.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
  path_.clear();
  lock_.reset();
}

Listener Listener::tcp(const std::string& host, std::uint16_t port) {
  const SocketAddress address = ip_address(host, port);
  const std::string where = str(host, ":", port);
  UniqueFd fd(check_syscall(where, ::socket(address.get()->sa_family, kSocketFlags, 0)));
  const int on = 1;
  // Accepted sockets inherit TCP_NODELAY.
  check_syscall(where, ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  check_syscall(where, ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  if (::bind(fd.get(), address.get(), address.size) != 0) cannot_listen(where, errno);
  if (::listen(fd.get(), SOMAXCONN) != 0) cannot_listen(where, errno);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  check_syscall(where, ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size));
  // The port stands at the same place for both families.
  const std::uint16_t actual = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  return Listener(std::move(fd), actual, {});
}

Listener Listener::unix_socket(const std::string& path, std::optional<gid_t> group) {
  const sockaddr_un address = unix_address(path);
  prepare_directory(std::filesystem::path(path).parent_path(), group);
  UniqueFd lock = lock_path(path);
  remove_stale(path, address);
  UniqueFd fd(check_syscall(path, ::socket(AF_UNIX, kSocketFlags, 0)));
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(fd.get(), raw, sizeof address) != 0) cannot_listen(path, errno);
  // Nobody can connect before listen().
  if (group) check_syscall(path, ::lchown(path.c_str(), static_cast<uid_t>(-1), *group));
  check_syscall(path, ::chmod(path.c_str(), group ? 0660 : 0600));
  if (::listen(fd.get(), SOMAXCONN) != 0) cannot_listen(path, errno);
  return Listener(std::move(fd), 0, path, std::move(lock));
}

UniqueFd Listener::accept() const {
  return UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

std::string peer_of(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return "gone";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    return text.data();
  }
  if (storage.ss_family != AF_INET6) return "unix";
  in6_addr six = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  const bool single = IN6_IS_ADDR_LOOPBACK(&six) || IN6_IS_ADDR_V4MAPPED(&six);
  if (!single) std::memset(&six.s6_addr[8], 0, 8);
  ::inet_ntop(AF_INET6, &six, text.data(), text.size());
  return single ? std::string(text.data()) : str(text.data(), "/64");
}

bool is_local_peer(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return false;
  if (storage.ss_family == AF_UNIX) return true;
  constexpr std::uint8_t kLoopbackNet = 127;
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    return ntohl(four.sin_addr.s_addr) >> 24 == kLoopbackNet;
  }
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) ||
         (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == kLoopbackNet);
}

}  // namespace caisson::net
