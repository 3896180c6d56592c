#include "net/liveness.h"

#include <algorithm>
#include <utility>

#include "base/str.h"

namespace caisson::net {

namespace {

// More than control frames come to, which the system of a peer that hangs still takes.
constexpr std::uint64_t kBehind = 4096;
// KiB that a peer may still have to read before our ping, and the time that it gets for all of
// them. The system tells of room in steps of up to 64 KiB, so this is for two of them.
constexpr std::uint64_t kMaxUnread = 128;
constexpr int kUnreadIntervals = 4;

}  // namespace

bool Liveness::look(Deadline now) {
  const Clock::duration unseen = now - std::exchange(looked_, now);
  if (unseen > interval_ / 2) heard_ = std::min(now, heard_ + unseen);
  return interval_ > Clock::duration::zero() && now - heard_ >= interval_ / 2;
}

Clock::duration Liveness::patience(const Sent& sent) const {
  const std::uint64_t unread = std::min((sent.written - read_by_peer_) / 1024, kMaxUnread);
  return 2 * interval_ +
         kUnreadIntervals * interval_ / kMaxUnread * static_cast<Clock::duration::rep>(unread);
}

Liveness::Verdict Liveness::judge(Deadline now, Sent sent, bool listening) {
  const std::uint64_t taken = sent.written - std::min(sent.queued, sent.written);
  if (behind_ && taken > taken_) heard_ = now;
  taken_ = taken;
  behind_ = sent.queued >= kBehind;
  if (!listening && !behind_) {
    heard_ = now;
    return Verdict::alive;
  }
  const Clock::duration silence = now - heard_;
  if (silence >= patience(sent)) return Verdict::gone;
  const bool ask = listening && silence >= interval_ && now - interval_ >= pinged_;
  return ask ? Verdict::ping : Verdict::alive;
}

std::string Liveness::next_ping(Deadline now, std::uint64_t written) {
  pinged_ = now;
  written_at_ping_ = written;
  return str(++pings_);
}

void Liveness::pong(std::string_view payload) {
  if (pings_ > 0 && payload == str(pings_)) read_by_peer_ = written_at_ping_;
}

}  // namespace caisson::net
