#include "backend/keeper.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "backend/guest_image.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/seqpacket.h"
#include "base/str.h"

namespace caisson::backend {

namespace {

constexpr std::chrono::seconds kSendPatience{2};
// The first byte of kept data says where the rest is.
constexpr char kInline = '=';
constexpr char kInMemoryFile = '@';  // the last descriptor

sockaddr_un address_in(int directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = str("/proc/self/fd/", directory, "/", wire::kKeeperSocketName);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

void limit_waits(int socket, int option, std::chrono::milliseconds patience) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(patience);
  const std::chrono::microseconds rest = patience - seconds;
  const timeval limit{seconds.count(), rest.count()};
  check_syscall("keeper", ::setsockopt(socket, SOL_SOCKET, option, &limit, sizeof limit));
}

KeptEntry entry_of(const std::string& data, std::vector<UniqueFd> fds) {
  KeptEntry entry{.data = {}, .fds = std::move(fds)};
  if (data.starts_with(kInline)) {
    entry.data = data.substr(1);
  } else if (data.starts_with(kInMemoryFile) && !entry.fds.empty()) {
    entry.data = read_all(entry.fds.back().get(), "kept data", 64u << 20);
    entry.fds.pop_back();
  } else {
    throw Error(ErrorCode::protocol_error, "the keeper holds something that nobody gave it");
  }
  return entry;
}

}  // namespace

KeeperProcess::KeeperProcess(const std::filesystem::path& directory,
                             std::chrono::milliseconds patience)
    : name_(directory.native()),
      directory_(open_file(directory, O_RDONLY | O_DIRECTORY)),
      patience_(patience) {
  connect();
}

KeeperProcess::~KeeperProcess() {
  process_.let_go();
}

void KeeperProcess::connect() {
  socket_ = try_connect();
  std::optional<KeptEntries> kept = socket_ ? ask_for_entries() : std::nullopt;
  if (!kept) {
    // One that holds nothing ends when its last owner goes, perhaps just now.
    if (socket_) log::info("the keeper has ended and is replaced", "state", name_);
    start();
    kept = ask_for_entries();
  }
  if (!kept) throw Error(ErrorCode::internal_error, str(name_, ": the keeper has ended"));
  entries_ = std::move(*kept);
}

UniqueFd KeeperProcess::try_connect() const {
  UniqueFd socket(check_syscall("keeper", ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));
  limit_waits(socket.get(), SO_SNDTIMEO, kSendPatience);
  limit_waits(socket.get(), SO_RCVTIMEO, patience_);
  const sockaddr_un address = address_in(directory_.get());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return {};
    throw SystemError(str(name_, "/", wire::kKeeperSocketName), errno);
  }
  return socket;
}

void KeeperProcess::start() {
  const UniqueFd listener(
      check_syscall("keeper", ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));
  ::unlinkat(directory_.get(), wire::kKeeperSocketName, 0);
  const sockaddr_un address = address_in(directory_.get());
  const std::string path = str(name_, "/", wire::kKeeperSocketName);
  check_syscall(
      path, ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
  check_syscall(path, ::fchmodat(directory_.get(), wire::kKeeperSocketName, 0600, 0));
  check_syscall(path, ::listen(listener.get(), wire::kKeeperBacklog));
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  Command command;
  command.program = open_guest_program();
  command.argv = {"caisson", "keeper"};
  command.fds = {{null.get(), 0},
                 {null.get(), 1},
                 {null.get(), 2},
                 {listener.get(), 3},
                 {directory_.get(), 4}};
  process_ = spawn(command);
  socket_ = try_connect();
  if (!socket_) throw Error(ErrorCode::internal_error, str(path, ": the keeper did not start"));
}

std::optional<Packet> KeeperProcess::receive() const {
  try {
    return receive_packet(socket_.get());
  } catch (const SystemError& error) {
    if (error.error_number() != EAGAIN) throw;
    throw Error(ErrorCode::busy, str(name_, ": the keeper of its boxes (process ", peer(),
                                     ") does not answer; try again when it runs, or kill it to "
                                     "begin without these boxes"));
  }
}

pid_t KeeperProcess::peer() const {
  if (process_.running()) return process_.pid();
  ucred peer{};
  socklen_t size = sizeof peer;
  check_syscall("keeper", ::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size));
  return peer.pid;
}

// Whatever else than its end keeps us from understanding it: it lives, and has the boxes.
std::optional<KeptEntries> KeeperProcess::ask_for_entries() {
  try {
    send_packet(socket_.get(), wire::encode(wire::KeeperRequest(wire::TellAll{})));
    KeptEntries entries;
    while (std::optional<Packet> packet = receive()) {
      wire::KeeperReply reply = wire::decode_keeper_reply(packet->data);
      if (const auto* all = std::get_if<wire::KeptAll>(&reply)) {
        pid_ = all->pid;
        return entries;
      }
      wire::Kept& kept = std::get<wire::Kept>(reply);
      entries.emplace(kept.name, entry_of(kept.data, std::move(packet->fds)));
    }
    return std::nullopt;
  } catch (const Error& error) {
    const auto* failed = dynamic_cast<const SystemError*>(&error);
    const int number = failed == nullptr ? 0 : failed->error_number();
    if (number == EPIPE || number == ECONNRESET) return std::nullopt;
    if (error.code() == ErrorCode::busy) throw;
    throw Error(ErrorCode::busy,
                str(name_, ": what the keeper of its boxes (process ", peer(),
                    ") holds cannot be taken over: ", error.what(),
                    "; raise the limit of open files, or kill it to begin without these boxes"));
  }
}

void KeeperProcess::keep(const std::string& name, const std::string& data, std::vector<int> fds) {
  UniqueFd memory;
  wire::Keep request{.name = name, .data = str(kInline, data)};
  if (name.size() + data.size() > wire::kMaxKeptBytes) {
    memory = sealed_memory_file("caisson-kept", std::as_bytes(std::span(data.data(), data.size())));
    fds.push_back(memory.get());
    request.data = kInMemoryFile;
  }
  send(request, fds);
}

void KeeperProcess::drop(const std::string& name) {
  send(wire::Drop{name}, {});
}

void KeeperProcess::quit() {
  try {
    send_packet(socket_.get(), wire::encode(wire::KeeperRequest(wire::Quit{})));
    if (process_.running()) process_.wait();
  } catch (const SystemError&) {
    // It has ended already.
  }
  ::unlinkat(directory_.get(), wire::kKeeperSocketName, 0);
}

// Boxes need no keeper to go on: one that was killed, or takes nothing, is replaced, and everybody
// keeps what is theirs again.
void KeeperProcess::send(const wire::KeeperRequest& request, const std::vector<int>& fds) {
  try {
    send_packet(socket_.get(), wire::encode(request), fds);
    return;
  } catch (const SystemError& error) {
    if (error.error_number() == EAGAIN) {
      // Its end of the socket is open: this is still the process that said its number.
      log::warning("the keeper takes nothing and is killed", "process", pid_);
      ::kill(pid_, SIGKILL);
    } else if (error.error_number() != EPIPE && error.error_number() != ECONNRESET) {
      log::error("the keeper cannot be told; boxes may not survive a restart", "error",
                 error.what());
      return;
    }
  }
  if (!replace()) return;
  try {
    send_packet(socket_.get(), wire::encode(request), fds);
  } catch (const SystemError& error) {
    log::error("the new keeper has ended as well", "error", error.what());
  }
}

bool KeeperProcess::replace() {
  log::warning("the keeper has ended and is replaced", "state", name_);
  if (process_.running()) process_.wait();
  try {
    start();
    if (!ask_for_entries()) throw Error(ErrorCode::internal_error, "it ended at once");
  } catch (const Error& error) {
    log::error("no keeper; boxes will not survive a restart", "error", error.what());
    return false;
  }
  ++generation_;
  for (const std::function<void()>& keep_again : loss_handlers_) keep_again();
  return true;
}

// It speaks only when it is asked, and whoever asks reads the answer at once: what can be read here
// is its end.
Task<void> KeeperProcess::watch() {
  const auto executor = co_await boost::asio::this_coro::executor;
  for (;;) {
    const int watched = generation_;
    boost::asio::posix::stream_descriptor socket(executor,
                                                 duplicate(socket_.get(), "keeper").release());
    co_await socket.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                               boost::asio::use_awaitable);
    if (generation_ == watched && !replace()) co_return;
  }
}

}  // namespace caisson::backend
