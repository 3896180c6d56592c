#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "net/http.h"
#include "net/peer.h"

namespace caisson::net {

// Requests that were refused because of who asked, for what or how often: all are counted, and told
// to the operator in the log, a few at a time, because a stranger decides how many there are.
class Refusals {
 public:
  // Unauthorized, forbidden, misdirected, too many.
  static constexpr std::array<int, 4> kStatuses = {401, 403, 421, 429};
  using Counts = std::array<std::uint64_t, kStatuses.size()>;

  static constexpr std::uint64_t kLines = 20;
  static constexpr auto kPeriod = std::chrono::seconds(10);

  // Does nothing for another status. Neither the path nor the reason has secrets; a query may.
  void note(int status, const Peer& peer, const Request& request, std::string_view reason);

  const Counts& counts() const { return counts_; }  // since the start

  // Whether one more line may be written: how many were left out before it; nullopt: it may not.
  std::optional<std::uint64_t> take_line(Deadline now);

 private:
  Counts counts_{};
  Deadline period_end_{};
  std::uint64_t written_ = 0;   // in this period
  std::uint64_t left_out_ = 0;  // since the last line
};

}  // namespace caisson::net
