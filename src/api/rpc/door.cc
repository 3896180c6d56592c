#include "api/rpc/door.h"

#include <algorithm>

#include "base/text.h"
#include "net/guard.h"
#include "net/handshake.h"

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

// The guard has found it right, or the request would not be here.
bool shows_daemon_token(const net::Request& request) {
  if (request.find("authorization") != nullptr) return true;
  const auto entries = net::list_header(request.headers, "sec-websocket-protocol");
  return std::any_of(entries.begin(), entries.end(), [](std::string_view entry) {
    return entry.starts_with(net::kBearerSubprotocol);
  });
}

}  // namespace

bool Door::shows_token(const net::Request& request) const {
  if (!asks_for_token()) return true;
  if (!settings_.daemon_token.empty() && shows_daemon_token(request)) return true;
  const std::string* shown = request.find(kTokenHeader);
  if (shown == nullptr) return false;
  const std::string_view token = trim(*shown);
  // Both, whatever the first comes to: it takes the same time.
  const bool control = net::equal_in_constant_time(token, settings_.control_token);
  const bool daemon = net::equal_in_constant_time(token, settings_.daemon_token);
  return control || daemon;
}

bool Door::may_follow(const std::string& instance) const {
  if (instance == trusted_instance() || trusted_instance().empty()) return true;
  const bool open = settings_.trusted_instance.empty() && settings_.control_token.empty() &&
                    !settings_.token_required;
  return open && !present_.contains(trusted_instance());
}

std::optional<Door::Visitor> Door::judge(const net::Request& request) const {
  if (request.find(kInstanceHeader) == nullptr) {
    const bool welcome = settings_.legacy && settings_.trusted_instance.empty();
    return welcome && shows_token(request) ? std::optional<Visitor>(std::in_place) : std::nullopt;
  }
  if (!shows_token(request)) return std::nullopt;
  const std::string instance(trim(*request.find(kInstanceHeader)));
  if (!is_instance(instance) || !may_follow(instance)) return std::nullopt;
  return Visitor{.instance = instance};
}

bool Door::is_trusted(const net::Request& request) const {
  const std::string* instance = request.find(kInstanceHeader);
  return instance != nullptr && shows_token(request) && !trusted_instance().empty() &&
         trim(*instance) == trusted_instance();
}

bool Door::is_user(const net::Request& request) const {
  return !settings_.token_required || shows_token(request);
}

bool Door::trust(const std::string& instance) {
  if (!may_follow(instance)) return false;
  if (settings_.trusted_instance.empty()) pinned_ = instance;
  return true;
}

}  // namespace caisson::api::rpc
