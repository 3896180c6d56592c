// What one side leaves lying about for the other to find: the counterpart of the host_* checks.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/unique_fd.h"
#include "check.h"
#include "support.h"
#include "verbs.h"

namespace caisson::payload {
namespace {

int complain(const char* what) {
  std::fprintf(stderr, "fixture: %s: %s\n", what, errno_name(errno).c_str());
  return 1;
}

UniqueFd listen_on_abstract_name(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof address.sun_path) return UniqueFd();
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool listening = fd &&
                         ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                         ::listen(fd.get(), 8) == 0;
  return listening ? std::move(fd) : UniqueFd();
}

// On every address of the family, so that the loopback one and the box's own are both tried.
UniqueFd listen_on_tcp(int family, unsigned& port) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int only = 1;
  if (fd && family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  }
  const bool listening = fd && ::bind(fd.get(), generic, length) == 0 &&
                         ::listen(fd.get(), 8) == 0 &&
                         ::getsockname(fd.get(), generic, &length) == 0;
  if (!listening) return UniqueFd();
  port = ntohs(family == AF_INET ? reinterpret_cast<sockaddr_in*>(generic)->sin_port
                                 : reinterpret_cast<sockaddr_in6*>(generic)->sin6_port);
  return fd;
}

// The address that this side would use to reach the world; loopback when it has none.
std::string own_address() {
  sockaddr_in somewhere{};
  somewhere.sin_family = AF_INET;
  somewhere.sin_port = htons(9);
  ::inet_pton(AF_INET, "198.51.100.1", &somewhere.sin_addr);
  socklen_t length = sizeof somewhere;
  auto* generic = reinterpret_cast<sockaddr*>(&somewhere);
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), generic, length) < 0) return "127.0.0.1";
  if (::getsockname(fd.get(), generic, &length) < 0) return "127.0.0.1";
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &somewhere.sin_addr, text, sizeof text);
  return text;
}

void print_namespaces() {
  const char* separator = " ";
  for (const char* name : {"user", "mnt", "pid", "ipc", "uts", "cgroup", "net"}) {
    char link[64] = {};
    const std::string path = std::string("/proc/self/ns/") + name;
    if (::readlink(path.c_str(), link, sizeof link - 1) < 0) continue;
    std::printf("%s%s", separator, link);
    separator = ",";
  }
}

}  // namespace

int run_fixture(const Words& words) {
  if (words.size() != 3) return complain("needs NAME KEY FILE");
  const UniqueFd abstract = listen_on_abstract_name(words[0]);
  if (!abstract) return complain("abstract socket");
  const int segment = ::shmget(static_cast<key_t>(std::stol(words[1])), 4096, IPC_CREAT | 0666);
  if (segment < 0) return complain("shmget");
  const UniqueFd file(::open(words[2].c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  if (!file) return complain("file");
  unsigned port4 = 0, port6 = 0;
  const UniqueFd listener4 = listen_on_tcp(AF_INET, port4);
  const UniqueFd listener6 = listen_on_tcp(AF_INET6, port6);
  if (!listener4) return complain("listener");
  std::printf("ready %u %u %s", port4, port6, own_address().c_str());
  print_namespaces();
  std::printf("\n");
  std::fflush(stdout);
  wait_for_end_of_input();
  ::shmctl(segment, IPC_RMID, nullptr);
  ::unlink(words[2].c_str());
  return 0;
}

}  // namespace caisson::payload
