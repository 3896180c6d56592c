#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/task.h"
#include "base/seqpacket.h"
#include "base/unique_fd.h"
#include "wire/guest.h"

namespace caisson::backend {

// What became of one process that a guest was asked to start.
struct GuestProcessState {
  explicit GuestProcessState(const boost::asio::any_io_executor& executor)
      : started(executor), ended(executor) {}
  Event started;          // the answer to the start is here: `pid` or `failure`
  Event ended;            // the process has ended (`exit`), or the guest is gone (no `exit`)
  bool announced = true;  // a Started comes before the end
  std::int32_t pid = 0;
  std::optional<wire::StartFailed> failure;
  std::optional<wire::Exited> exit;
  bool wants_terminal = false;
  UniqueFd terminal;  // its master
  std::uint64_t oom_kills_before = 0;
};

// The owner's end of a guest's control socket. Every byte that comes from it is treated as hostile:
// a message that is malformed or not in its place closes the channel, which ends the box.
class GuestChannel : public std::enable_shared_from_this<GuestChannel> {
 public:
  GuestChannel(const boost::asio::any_io_executor& executor, UniqueFd socket);

  // The next packet, before listen() is called: the conversation that sets a box up.
  Task<Packet> receive();
  Task<void> send(wire::OwnerMessage message, std::vector<UniqueFd> fds);

  // From now on messages are dispatched to the processes they speak of.
  void listen();

  // Instead of listen(), by an owner that takes over: all processes that the guest knows, each of
  // them once. What it says to the owners before, who may have asked the same and died, is dropped.
  // `token` is one that none of them has used.
  Task<wire::Processes> resume(std::uint64_t token);

  // Announces a process; its Start message may be sent then.
  std::shared_ptr<GuestProcessState> expect(std::uint64_t id, bool announced = true);
  void forget(std::uint64_t id);

  // Sent now or, when the socket is full, not at all: for signals to a guest that does not read.
  void send_now(const wire::OwnerMessage& message);

  const boost::asio::any_io_executor& executor() const { return executor_; }
  bool open() const { return socket_.is_open(); }
  bool has_unread();  // a packet is there, or the end
  int socket() { return socket_.native_handle(); }
  // Of all processes that have ended.
  std::chrono::microseconds reported_cpu_time() const { return reported_cpu_time_; }
  const Event& closed() const { return closed_; }
  // The reason, if there is one to give, is for those who wait for processes.
  void close(std::string reason = {});
  const std::string& close_reason() const { return close_reason_; }

 private:
  Task<void> wait_until_ready(boost::asio::posix::stream_descriptor::wait_type what);
  void wait_for_message();
  void on_readable();
  void dispatch(const wire::GuestMessage& message, std::vector<UniqueFd>& fds);

  boost::asio::any_io_executor executor_;
  boost::asio::posix::stream_descriptor socket_;
  std::map<std::uint64_t, std::shared_ptr<GuestProcessState>> processes_;
  Event closed_;
  std::string close_reason_;
  std::chrono::microseconds reported_cpu_time_{0};
};

}  // namespace caisson::backend
