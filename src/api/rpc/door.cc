#include "api/rpc/door.h"

#include <algorithm>

#include "base/str.h"
#include "base/text.h"
#include "net/guard.h"

namespace caisson::api::rpc {

namespace {

constexpr std::size_t kMaxInstance = 128;

bool is_instance(std::string_view text) {
  if (text.empty() || text.size() > kMaxInstance || !is_ascii_alphanumeric(text.front()))
    return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_ascii_alphanumeric(c) || c == '.' || c == '_' || c == ':' || c == '-';
  });
}

}  // namespace

// The guard has compared what was shown to it.
bool Door::shows_token(const net::Request& request, const net::Peer& peer) const {
  if (peer.trust == net::Trust::token) return true;
  const std::string* shown = request.find(kTokenHeader);
  if (shown == nullptr) return false;
  const std::string_view token = trim(*shown);
  // Both, whatever the first comes to: it takes the same time.
  const bool control = net::equal_in_constant_time(token, settings_.control_token);
  const bool daemon = net::equal_in_constant_time(token, settings_.daemon_token);
  return control || daemon;
}

bool Door::may_come(const net::Request& request, const net::Peer& peer) const {
  return (settings_.control_token.empty() && peer.is_known()) || shows_token(request, peer);
}

std::string Door::refusal(const net::Request& request, const net::Peer& peer) const {
  if (may_come(request, peer)) return "no instance that may come now is named";
  return settings_.control_token.empty()
             ? net::unauthorized_message(peer)
             : str("the control token is required; send it as \"", kTokenHeader, ": TOKEN\"");
}

bool Door::may_follow(const std::string& instance) const {
  if (instance == trusted_instance() || trusted_instance().empty()) return true;
  const bool open = settings_.trusted_instance.empty() && settings_.control_token.empty() &&
                    !settings_.token_required;
  return open && !present_.contains(trusted_instance());
}

std::optional<Door::Visitor> Door::judge(const net::Request& request, const net::Peer& peer) const {
  if (!may_come(request, peer)) return std::nullopt;
  Visitor visitor{.instance = {}, .shown_token = shows_token(request, peer)};
  if (request.find(kInstanceHeader) == nullptr) {
    const bool welcome = settings_.legacy && settings_.trusted_instance.empty();
    return welcome ? std::optional(visitor) : std::nullopt;
  }
  visitor.instance = trim(*request.find(kInstanceHeader));
  if (!is_instance(visitor.instance) || !may_follow(visitor.instance)) return std::nullopt;
  return visitor;
}

bool Door::is_trusted(const net::Request& request, const net::Peer& peer) const {
  const std::string* instance = request.find(kInstanceHeader);
  return instance != nullptr && may_come(request, peer) && !trusted_instance().empty() &&
         trim(*instance) == trusted_instance();
}

bool Door::is_user(const net::Request& request, const net::Peer& peer) const {
  return peer.is_known() || shows_token(request, peer);
}

bool Door::trust(const std::string& instance) {
  if (!may_follow(instance)) return false;
  if (settings_.trusted_instance.empty()) pinned_ = instance;
  return true;
}

}  // namespace caisson::api::rpc
