#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace caisson::net {

// Decides when a peer is to be asked whether it lives and when it is given up; websocket.h says by
// which rules. Pure: it is told the time and what the connection has come to.
class Liveness {
 public:
  Liveness(Clock::duration interval, Deadline now)
      : interval_(interval), heard_(now), looked_(now) {}

  // What is known of the bytes that were sent.
  struct Sent {
    std::uint64_t written = 0;  // taken by our system, ever
    std::uint64_t queued = 0;   // of these, not taken by the peer's
  };
  enum class Verdict { alive, ping, gone };

  // To be called a few times in each interval: whether nothing has been heard for so long that the
  // peer is to be judged. While nobody looks nothing is heard either, so that time does not count.
  bool look(Deadline now);
  // `listening`: bytes of the peer would be read. A peer that is not listened to is only judged by
  // what it takes.
  Verdict judge(Deadline now, Sent sent, bool listening);

  void heard(Deadline now) { heard_ = now; }
  // The payload of the ping that is sent now.
  std::string next_ping(Deadline now, std::uint64_t written);
  // The answer to a ping tells that everything before it has been read.
  void pong(std::string_view payload);

 private:
  Clock::duration patience(const Sent& sent) const;

  Clock::duration interval_;  // zero: never ask, never give up
  Deadline heard_;
  Deadline looked_;
  Deadline pinged_ = Deadline::min();
  std::uint64_t pings_ = 0;
  std::uint64_t written_at_ping_ = 0;
  std::uint64_t read_by_peer_ = 0;
  std::uint64_t taken_ = 0;
  bool behind_ = false;  // the peer's system did not take everything
};

}  // namespace caisson::net
