#include "host_side.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::security_test {
namespace {

constexpr int kFirstKey = 0x43610000;
constexpr char kCanaryVariable[] = "CAISSON_TEST_CANARY";

UniqueFd listen_on(const sockaddr* address, socklen_t length) {
  UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int only = 1;
  if (fd && address->sa_family == AF_INET6) {
    check_syscall("IPV6_V6ONLY",
                  ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only));
  }
  const bool listening =
      fd && ::bind(fd.get(), address, length) == 0 && ::listen(fd.get(), 64) == 0;
  return listening ? std::move(fd) : UniqueFd();
}

UniqueFd listen_on(in_addr_t host_order) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host_order);
  return listen_on(reinterpret_cast<sockaddr*>(&address), sizeof address);
}

UniqueFd listen_on(const in6_addr& host) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = host;
  return listen_on(reinterpret_cast<sockaddr*>(&address), sizeof address);
}

UniqueFd listen_on_abstract_name(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return listen_on(reinterpret_cast<sockaddr*>(&address), length);
}

unsigned port_of(const UniqueFd& fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  check_syscall("getsockname", ::getsockname(fd.get(), generic, &length));
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(generic)->sin_port
                                            : reinterpret_cast<sockaddr_in6*>(generic)->sin6_port);
}

// IPv4 addresses of this host that are not loopback.
std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  check_syscall("getifaddrs", ::getifaddrs(&list));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const in_addr address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    if ((ntohl(address.s_addr) >> 24) == IN_LOOPBACKNET) continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &address, text, sizeof text);
    addresses.emplace_back(text);
  }
  return addresses;
}

std::string own_namespaces() {
  std::vector<std::string> links;
  for (const char* name : {"user", "mnt", "pid", "ipc", "uts", "cgroup", "net"}) {
    links.push_back(std::filesystem::read_symlink(str("/proc/self/ns/", name)).native());
  }
  return join(links, ",");
}

}  // namespace

HostSide::HostSide() {
  const std::string name = str("caisson-security-", ::getpid());
  UniqueFd abstract = listen_on_abstract_name(name);
  if (!abstract) throw SystemError(str("abstract socket ", name), errno);
  listeners_.push_back(std::move(abstract));
  arguments_["host_abstract_unix"] = name;

  const std::filesystem::path file = directory_.path() / "readable";
  replace_file(file, "a file of the host\n");
  arguments_["host_file"] = file.native();

  const std::string canary = str("canary-", ::getpid());
  check_syscall(kCanaryVariable, ::setenv(kCanaryVariable, canary.c_str(), 1));
  arguments_["self_environ"] = canary;
  arguments_["host_namespaces"] = own_namespaces();

  share_memory();
  listen_on_loopback();
  listen_on_every_address();
}

HostSide::~HostSide() {
  if (segment_ >= 0) ::shmctl(segment_, IPC_RMID, nullptr);
  ::unsetenv(kCanaryVariable);
}

void HostSide::share_memory() {
  const key_t key = kFirstKey + (::getpid() & 0xffff);
  segment_ = check_syscall("shmget", ::shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0666));
  arguments_["host_sysv_shm"] = std::to_string(key);
}

void HostSide::listen_on_loopback() {
  UniqueFd v4 = listen_on(INADDR_LOOPBACK);
  if (!v4) throw SystemError("127.0.0.1", errno);
  std::string endpoints = str("127.0.0.1:", port_of(v4));
  listeners_.push_back(std::move(v4));
  if (UniqueFd v6 = listen_on(in6addr_loopback)) {  // a host may be without IPv6
    endpoints += str(",[::1]:", port_of(v6));
    listeners_.push_back(std::move(v6));
  }
  arguments_["host_loopback"] = endpoints;
}

void HostSide::listen_on_every_address() {
  UniqueFd any = listen_on(INADDR_ANY);
  if (!any) throw SystemError("0.0.0.0", errno);
  std::vector<std::string> endpoints = {str("127.0.0.1:", port_of(any))};
  for (const std::string& address : own_addresses()) {
    endpoints.push_back(str(address, ":", port_of(any)));
  }
  listeners_.push_back(std::move(any));
  arguments_["host_address"] = join(endpoints, ",");
}

const std::vector<ListedCheck>& listed_checks() {
  static const std::vector<ListedCheck> checks = [] {
    std::vector<ListedCheck> listed;
    const HostRun run = run_payload_on_host({"list"});
    for (const std::string_view line : split(run.output, '\n')) {
      if (line.empty()) continue;
      const std::vector<std::string_view> words = split(line, ' ');
      listed.push_back({std::string(words[0]), {words.begin() + 1, words.end()}});
    }
    return listed;
  }();
  return checks;
}

HostRun run_payload_on_host(std::vector<std::string> words) {
  Command command;
  command.argv = std::move(words);
  command.argv.insert(command.argv.begin(), CAISSON_PAYLOAD_PATH);
  for (char** entry = environ; *entry != nullptr; ++entry) command.env.emplace_back(*entry);
  auto [read_end, write_end] = make_pipe();
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  command.fds = {{null.get(), 0}, {write_end.get(), 1}, {null.get(), 2}};
  ChildProcess child = spawn(command);
  write_end.reset();
  HostRun run;
  run.output = read_all(read_end.get(), "output of the payload program");
  const int status = child.wait();
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

}  // namespace caisson::security_test
