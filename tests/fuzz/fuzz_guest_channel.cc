// The owner's end of a guest's socket against a guest that sends anything at all. Whatever it is,
// the channel ends closed or goes on waiting, no process is in two states at once, and no
// descriptor is left.
#include <dirent.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "backend/guest_channel.h"
#include "base/file.h"
#include "channel_script.h"
#include "fuzz.h"

namespace {

namespace asio = boost::asio;
using namespace caisson;
using backend::GuestChannel;
using backend::GuestProcessState;
using fuzz::require;

int open_descriptors() {
  DIR* directory = ::opendir("/proc/self/fd");
  require(directory != nullptr);
  int count = 0;
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

// One packet as the kernel takes it: nothing of ours checks the guest's side. A full socket drops
// it.
void send_anything(int socket, const fuzz::ScriptedPacket& packet) {
  constexpr std::size_t kTooMany = kMaxPacketFds + 6;
  const std::size_t count = packet.descriptors == 3 ? kTooMany : packet.descriptors;
  iovec vector{const_cast<char*>(packet.data.data()), packet.data.size()};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kTooMany)] = {};
  if (count > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(sizeof(int) * count);
    const std::vector<int> fds(count, STDERR_FILENO);
    std::memcpy(CMSG_DATA(message), fds.data(), sizeof(int) * count);
  }
  ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// As the native backend sets a box up: until the guest is ready or breaks the protocol.
Task<void> set_up(std::shared_ptr<GuestChannel> channel) {
  for (;;) {
    const Packet packet = co_await channel->receive();
    const wire::GuestMessage message = wire::decode_guest_message(packet.data);
    if (std::holds_alternative<wire::Ready>(message)) co_return;
    if (!std::holds_alternative<wire::NetworkHandover>(message)) {
      throw Error(ErrorCode::protocol_error, "out of turn");
    }
    const wire::OwnerMessage done = wire::NetworkReady{};
    co_await channel->send(done, {});
  }
}

void require_sound(const GuestProcessState& process, bool channel_open) {
  require(process.pid == 0 || process.pid > 1);
  if (process.pid != 0) require(process.started.is_set() && !process.failure);
  if (process.failure) require(process.started.is_set() && process.ended.is_set() && !process.exit);
  if (process.exit) require(process.ended.is_set() && (process.pid != 0 || !process.announced));
  if (channel_open) return;
  require(process.ended.is_set());
  require(process.started.is_set() || (process.exit && !process.announced));
}

void turn(asio::io_context& io) {
  io.restart();
  io.poll();
}

// Turns the loop until it has nothing left to do, which has to happen soon.
void finish(asio::io_context& io) {
  io.restart();
  io.run_for(std::chrono::seconds(5));
  require(io.stopped());
}

void converse(const fuzz::ChannelScript& script) {
  asio::io_context io;
  auto [ours, theirs] = seqpacket_pair();
  const auto channel = std::make_shared<GuestChannel>(io.get_executor(), std::move(ours));
  std::vector<std::shared_ptr<GuestProcessState>> processes;
  for (unsigned id = 0; id < script.processes; ++id) {
    processes.push_back(channel->expect(id, id % 2 == 0));
  }
  std::optional<std::exception_ptr> setup;
  if (script.setting_up) {
    asio::co_spawn(io, set_up(channel), [&](const std::exception_ptr& end) { setup = end; });
  } else {
    channel->listen();
  }
  for (const fuzz::ScriptedPacket& packet : script.packets) {
    send_anything(theirs.get(), packet);
    if (packet.turn_after) turn(io);
    for (const auto& process : processes) require_sound(*process, channel->open());
  }
  turn(io);
  theirs.reset();
  finish(io);
  if (script.setting_up) {
    require(setup.has_value());
    try {
      if (*setup) std::rethrow_exception(*setup);
    } catch (const Error&) {
      // Everything a guest can do ends in one of our errors.
    }
    channel->close();
  }
  require(!channel->open() && channel->closed().is_set());
  for (const auto& process : processes) require_sound(*process, false);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int before = open_descriptors();
  converse(fuzz::read_script(fuzz::text(data, size)));
  require(open_descriptors() == before);
  return 0;
}
