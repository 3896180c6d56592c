#include "backend/guest_channel.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace caisson::backend {

namespace asio = boost::asio;

namespace {

// So many messages are dispatched in one turn of the loop: a guest that never stops talking shall
// not keep the other boxes waiting.
constexpr int kMessagesPerTurn = 64;

// As it was said, but with times that can be added up.
wire::Exited plausible(wire::Exited exited) {
  constexpr std::uint64_t kMost = 1'000'000'000'000;
  exited.user_us = std::min(exited.user_us, kMost);
  exited.system_us = std::min(exited.system_us, kMost);
  return exited;
}

// Each process is told of once, by an id that an owner gave, and there are ids left for new ones.
void check_processes(const wire::Processes& processes) {
  constexpr std::uint64_t kMostIds = std::uint64_t{1} << 63;
  std::set<std::uint64_t> ids;
  const auto is_new = [&](std::uint64_t id) {
    return id <= processes.last_id && ids.insert(id).second;
  };
  bool sound = processes.last_id < kMostIds;
  for (const wire::RunningProcess& running : processes.running) {
    sound = sound && is_new(running.id) && running.pid > 1;
  }
  for (const wire::Exited& exited : processes.ended) sound = sound && is_new(exited.id);
  if (!sound) {
    throw Error(ErrorCode::protocol_error, "the guest's list of processes contradicts itself");
  }
}

}  // namespace

GuestChannel::GuestChannel(const asio::any_io_executor& executor, UniqueFd socket)
    : executor_(executor), socket_(executor), closed_(executor) {
  set_nonblocking(socket.get());
  socket_.assign(socket.release());
}

Task<Packet> GuestChannel::receive() {
  while (open()) {
    PolledPacket polled = poll_packet(socket_.native_handle());
    if (polled.packet) co_return std::move(*polled.packet);
    if (polled.closed) throw Error(ErrorCode::box_lost, "the guest ended while the box was made");
    co_await wait_until_ready(asio::posix::stream_descriptor::wait_read);
  }
  throw Error(ErrorCode::box_lost, "the box was given up while it was made");
}

Task<void> GuestChannel::send(wire::OwnerMessage message, std::vector<UniqueFd> fds) {
  std::string data = wire::encode(message);
  UniqueFd memory;
  std::vector<int> sent;
  if (data.size() > wire::kMaxInlineBytes) {
    if (data.size() > wire::kMaxIndirectBytes) {
      throw Error(ErrorCode::validation_error, "the command is larger than 32 MiB");
    }
    memory =
        sealed_memory_file("caisson-message", std::as_bytes(std::span(data.data(), data.size())));
    sent.push_back(memory.get());
    data = wire::encode(wire::OwnerMessage(wire::Indirect{data.size()}));
  }
  for (const UniqueFd& fd : fds) sent.push_back(fd.get());
  for (;;) {
    if (!open()) throw Error(ErrorCode::box_lost, "the box has ended");
    try {
      send_packet(socket_.native_handle(), data, sent);
      co_return;
    } catch (const SystemError& error) {
      if (error.error_number() == EPIPE || error.error_number() == ECONNRESET) {
        throw Error(ErrorCode::box_lost, "the box has ended");
      }
      if (error.error_number() != EAGAIN) throw;
    }
    co_await wait_until_ready(asio::posix::stream_descriptor::wait_write);
  }
}

// Returns also when the channel is closed meanwhile; only the cancellation of the waiting coroutine
// is an error.
Task<void> GuestChannel::wait_until_ready(asio::posix::stream_descriptor::wait_type what) {
  const auto [error] = co_await socket_.async_wait(what, asio::as_tuple(asio::use_awaitable));
  if (error && open()) throw boost::system::system_error(error);
}

void GuestChannel::send_now(const wire::OwnerMessage& message) {
  if (!open()) return;
  try {
    send_packet(socket_.native_handle(), wire::encode(message));
  } catch (const SystemError&) {
    // The guest is gone or does not read; the end of the box is noticed by the reader.
  }
}

std::shared_ptr<GuestProcessState> GuestChannel::expect(std::uint64_t id, bool announced) {
  auto state = std::make_shared<GuestProcessState>(executor_);
  state->announced = announced;
  processes_[id] = state;
  return state;
}

void GuestChannel::forget(std::uint64_t id) {
  processes_.erase(id);
}

void GuestChannel::listen() {
  wait_for_message();
}

// The guest answers in order: when it has said our token, all questions of others are answered.
// Every guest knows the token, whatever version of this program it came from.
Task<wire::Processes> GuestChannel::resume(std::uint64_t token) {
  wire::OwnerMessage mark = wire::Ping{token};
  co_await send(std::move(mark), {});
  wire::OwnerMessage question = wire::ListProcesses{};
  co_await send(std::move(question), {});
  bool ours = false;
  for (int read = 1;; ++read) {
    const Packet packet = co_await receive();
    wire::GuestMessage message = wire::decode_guest_message(packet.data);
    if (const auto* pong = std::get_if<wire::Pong>(&message)) ours = ours || pong->token == token;
    if (auto* processes = std::get_if<wire::Processes>(&message); processes != nullptr && ours) {
      check_processes(*processes);
      for (wire::Exited& exited : processes->ended) exited = plausible(exited);
      listen();
      co_return std::move(*processes);
    }
    if (read % kMessagesPerTurn == 0) co_await asio::post(executor_, asio::use_awaitable);
  }
}

void GuestChannel::wait_for_message() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (!error) self->on_readable();
                     });
}

void GuestChannel::on_readable() {
  if (!open()) return;  // closed after this turn was due
  try {
    for (int left = kMessagesPerTurn; left > 0; --left) {
      PolledPacket polled = poll_packet(socket_.native_handle());
      if (polled.closed) return close();
      if (!polled.packet) break;
      dispatch(wire::decode_guest_message(polled.packet->data), polled.packet->fds);
    }
    wait_for_message();
  } catch (const Error&) {
    close();
  }
}

void GuestChannel::dispatch(const wire::GuestMessage& message, std::vector<UniqueFd>& fds) {
  const auto find = [this](std::uint64_t id) -> GuestProcessState& {
    const auto found = processes_.find(id);
    if (found == processes_.end()) {
      throw Error(ErrorCode::protocol_error, "message about a process nobody started");
    }
    return *found->second;
  };
  const auto find_starting = [&](std::uint64_t id) -> GuestProcessState& {
    GuestProcessState& process = find(id);
    if (process.started.is_set()) {
      throw Error(ErrorCode::protocol_error, "a second answer to one start");
    }
    return process;
  };
  if (const auto* started = std::get_if<wire::Started>(&message)) {
    GuestProcessState& process = find_starting(started->id);
    if (started->pid <= 1) throw Error(ErrorCode::protocol_error, "message with a wrong pid");
    process.pid = started->pid;
    if (process.wants_terminal && !fds.empty()) process.terminal = std::move(fds.front());
    process.started.set();
  } else if (const auto* failed = std::get_if<wire::StartFailed>(&message)) {
    GuestProcessState& process = find_starting(failed->id);
    process.failure = *failed;
    process.started.set();
    process.ended.set();
    processes_.erase(failed->id);
  } else if (const auto* exited = std::get_if<wire::Exited>(&message)) {
    GuestProcessState& process = find(exited->id);
    if (process.announced && process.pid == 0) {
      throw Error(ErrorCode::protocol_error, "message about the end of a process before its start");
    }
    process.exit = plausible(*exited);
    reported_cpu_time_ += std::chrono::microseconds(process.exit->user_us) +
                          std::chrono::microseconds(process.exit->system_us);
    process.ended.set();
    processes_.erase(exited->id);
  } else if (!std::holds_alternative<wire::Pong>(message)) {
    throw Error(ErrorCode::protocol_error, "message out of place");
  }
}

bool GuestChannel::has_unread() {
  if (!open()) return false;
  pollfd readable{socket_.native_handle(), POLLIN, 0};
  return ::poll(&readable, 1, 0) > 0;
}

void GuestChannel::close(std::string reason) {
  if (!open()) return;
  close_reason_ = std::move(reason);
  boost::system::error_code ignored;
  socket_.close(ignored);
  for (const auto& [id, process] : std::exchange(processes_, {})) {
    process->started.set();
    process->ended.set();
  }
  closed_.set();
}

}  // namespace caisson::backend
