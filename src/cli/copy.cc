#include "cli/copy.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"

namespace caisson::cli {

namespace {

constexpr std::size_t kBlock = 64u << 10;  // what a pipe holds unless told otherwise

void wait_for(int fd, short events) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  if (::poll(&entry, 1, -1) < 0 && errno != EINTR) throw SystemError("poll", errno);
}

// Waits until there is input; false when it is time to stop.
bool wait_for_input(int from, int stop) {
  for (;;) {
    pollfd entries[] = {{.fd = from, .events = POLLIN, .revents = 0},
                        {.fd = stop, .events = POLLIN, .revents = 0}};
    if (::poll(entries, 2, -1) < 0) {
      if (errno == EINTR) continue;
      throw SystemError("poll", errno);
    }
    if (entries[1].revents != 0) return false;
    if (entries[0].revents != 0) return true;
  }
}

// 0, or the error that ended it.
int write_fully(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // somebody else made it non-blocking
      wait_for(fd, POLLOUT);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void copy_output(UniqueFd pipe, const Sink& sink) {
  std::vector<char> block(kBlock);
  for (;;) {
    const ssize_t got = ::read(pipe.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (check_syscall("output pipe", got) == 0) return;
    if (!sink({block.data(), static_cast<std::size_t>(got)})) return;
  }
}

std::optional<std::string> read_piece(int from, int stop) {
  std::string block(kBlock, '\0');
  while (wait_for_input(from, stop)) {
    const ssize_t got = ::read(from, block.data(), block.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) break;
    block.resize(static_cast<std::size_t>(got));
    return block;
  }
  return std::nullopt;
}

void copy_input(int from, UniqueFd pipe, int stop) {
  while (const std::optional<std::string> piece = read_piece(from, stop)) {
    if (write_fully(pipe.get(), *piece) != 0) return;
  }
}

bool FdSink::operator()(std::string_view bytes) const {
  const int failure = write_fully(fd, bytes);
  if (failure != 0 && failure != EPIPE) error = failure;
  return failure == 0;
}

void Capture::add(std::string_view bytes) {
  const std::size_t kept = std::min(limit - data.size(), bytes.size());
  data.append(bytes.substr(0, kept));
  discarded += bytes.size() - kept;
}

}  // namespace caisson::cli
