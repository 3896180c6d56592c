#include "net/refusals.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"

namespace caisson::net {

std::optional<std::uint64_t> Refusals::take_line(Deadline now) {
  if (now >= period_end_) {
    period_end_ = now + kPeriod;
    written_ = 0;
  }
  if (written_ >= kLines) {
    ++left_out_;
    return std::nullopt;
  }
  ++written_;
  return std::exchange(left_out_, 0);
}

void Refusals::note(int status, const Peer& peer, const Request& request, std::string_view reason) {
  const auto* const found = std::find(kStatuses.begin(), kStatuses.end(), status);
  if (found == kStatuses.end()) return;
  ++counts_[static_cast<std::size_t>(found - kStatuses.begin())];
  const std::optional<std::uint64_t> left_out = take_line(Clock::now());
  if (!left_out) return;
  // A query may hold a secret that was sent in the wrong place.
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  std::vector<log::Field> fields = {{"status", std::to_string(status), true}, {"peer", peer.name}};
  if (peer.uid) fields.push_back({"user", std::to_string(*peer.uid), true});
  fields.push_back({"method", printable(request.method)});
  fields.push_back({"path", printable(path)});
  if (!reason.empty()) fields.push_back({"reason", printable(reason, 400)});
  if (*left_out > 0) fields.push_back({"left_out", std::to_string(*left_out), true});
  log::write(log::Level::warning, "request refused", fields);
}

}  // namespace caisson::net
