// The owner's end of a guest's socket against a guest that sends anything at all. Whatever it is,
// the channel ends closed or goes on waiting, no process is in two states at once, all who wait
// for one are told of its end, and no descriptor is left.
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "async/loop_for_test.h"
#include "backend/guest_box.h"
#include "backend/guest_channel.h"
#include "backend/no_resources_for_test.h"
#include "base/file.h"
#include "channel_script.h"
#include "fuzz.h"

namespace {

namespace asio = boost::asio;
using namespace caisson;
using backend::GuestChannel;
using backend::GuestProcessState;
using fuzz::require;

constexpr std::uint64_t kToken = 1;  // of the owner that takes over

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
    if (const auto* ready = std::get_if<wire::Ready>(&message)) {
      if (ready->version == wire::kGuestProtocolVersion) co_return;
      throw Error(ErrorCode::protocol_error, "another version");
    }
    if (!std::holds_alternative<wire::NetworkHandover>(message)) {
      throw Error(ErrorCode::protocol_error, "out of turn");
    }
    const wire::OwnerMessage done = wire::NetworkReady{};
    co_await channel->send(done, {});
  }
}

// What an owner holds of a box that it took over.
struct Inheritance {
  std::unique_ptr<backend::GuestBox> box;
  std::vector<std::unique_ptr<backend::Process>> processes;
  unsigned waiting = 0;
};

// A process that was started without waiting for it tells only at its end that it was not.
Task<void> follow(backend::Process& process, bool may_fail, unsigned& waiting) {
  ++waiting;
  try {
    const backend::ProcessExit exit = co_await process.wait();
    require(exit.user_time.count() >= 0 && exit.system_time.count() >= 0);
    require((exit.user_time + exit.system_time).count() >= 0);
    process.settle();
  } catch (const Error& error) {
    require(may_fail || error.code() == ErrorCode::box_lost);
  }
  --waiting;
}

// As the daemon does after a restart: what runs in the box is followed, and more is started.
Task<void> take_over(asio::io_context& io, std::shared_ptr<GuestChannel> channel,
                     Inheritance& held) {
  const wire::Processes told = co_await channel->resume(kToken);
  held.box = std::make_unique<backend::GuestBox>("box", channel, backend::GuestBox::Identity{},
                                                 model::IsolationReport{},
                                                 std::make_shared<backend::NoResources>(), told);
  std::vector<std::uint64_t> ids;
  for (const wire::RunningProcess& running : told.running) {
    if (running.remember) ids.push_back(running.id);
  }
  for (const wire::Exited& ended : told.ended) ids.push_back(ended.id);
  for (const std::uint64_t id : ids) {
    held.processes.push_back(held.box->find_process(id));
    require(held.processes.back() != nullptr);
    require(held.processes.back()->pid() == 0 || held.processes.back()->pid() > 1);
    asio::co_spawn(io, follow(*held.processes.back(), false, held.waiting), rethrow);
  }
  for (const bool confirm_start : {true, false}) {
    backend::ProcessSpec spec{.argv = {"true"}, .confirm_start = confirm_start};
    backend::Stdio stdio{.in = open_file("/dev/null", O_RDWR),
                         .out = open_file("/dev/null", O_RDWR),
                         .err = open_file("/dev/null", O_RDWR)};
    held.processes.push_back(co_await held.box->start(std::move(spec), std::move(stdio)));
    asio::co_spawn(io, follow(*held.processes.back(), !confirm_start, held.waiting), rethrow);
  }
}

void require_sound(const GuestProcessState& process, bool channel_open) {
  require(process.pid == 0 || process.pid > 1);
  if (process.pid != 0) require(process.started.is_set() && !process.failure);
  if (process.failure) require(process.started.is_set() && process.ended.is_set() && !process.exit);
  if (process.exit) require(process.ended.is_set() && (process.pid != 0 || !process.announced));
  if (process.terminal) require(process.wants_terminal && process.pid != 0);
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
  const bool taking_over = script.taking_over && !script.setting_up;
  for (unsigned id = 0; id < (taking_over ? 0 : script.processes); ++id) {
    processes.push_back(channel->expect(id, id % 2 == 0));
    processes.back()->wants_terminal = script.terminals && id % 2 == 0;
  }
  Inheritance held;
  std::optional<std::exception_ptr> outcome;
  const auto note = [&](const std::exception_ptr& end) { outcome = end; };
  if (script.setting_up) {
    asio::co_spawn(io, set_up(channel), note);
  } else if (taking_over) {
    asio::co_spawn(io, take_over(io, channel, held), note);
  } else {
    channel->listen();
  }
  // The script is what it says once it has heard the question.
  if (taking_over) send_packet(theirs.get(), wire::encode(wire::GuestMessage(wire::Pong{kToken})));
  for (const fuzz::ScriptedPacket& packet : script.packets) {
    send_anything(theirs.get(), packet);
    if (packet.turn_after) turn(io);
    for (const auto& process : processes) require_sound(*process, channel->open());
  }
  turn(io);
  theirs.reset();
  finish(io);
  if (script.setting_up || taking_over) {
    require(outcome.has_value());
    try {
      if (*outcome) std::rethrow_exception(*outcome);
    } catch (const Error&) {
      // Everything a guest can do ends in one of our errors.
    }
    channel->close();
    finish(io);
  }
  require(held.waiting == 0);
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
