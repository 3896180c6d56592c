#include "daemon/supervisor.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.h"

namespace caisson::daemon {

void notify_supervisor(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");  // NOLINT: before threads
  sockaddr_un address{};
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return;
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  [[maybe_unused]] const ssize_t sent =
      ::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), length);
}

bool leaves_boxes(const model::DaemonConfig& daemon) {
  if (daemon.on_stop != model::OnStop::automatic) return daemon.on_stop == model::OnStop::leave;
  return std::getenv("NOTIFY_SOCKET") != nullptr;  // NOLINT: before threads
}

}  // namespace caisson::daemon
