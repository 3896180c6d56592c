#include "net/guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/str.h"
#include "base/text.h"
#include "net/handshake.h"

namespace caisson::net {

namespace {

constexpr std::array<std::string_view, 3> kLoopbackHosts = {"127.0.0.1", "localhost", "[::1]"};

Refusal forbid(std::string message) {
  return {.status = 403, .code = ErrorCode::forbidden, .message = std::move(message)};
}

// "[::1]" from "[0:0::1]"; nullopt when there is no address between the brackets.
std::optional<std::string> normalise_literal(std::string_view bracketed) {
  const std::string inner(bracketed.substr(1, bracketed.size() - 2));
  in6_addr address{};
  if (::inet_pton(AF_INET6, inner.c_str(), &address) != 1) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_ntop(AF_INET6, &address, text.data(), text.size()) == nullptr) return std::nullopt;
  return str("[", text.data(), "]");
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

// "192.0.2.1" as it is, or "[2001:db8::1]" in its shortest spelling. Other spellings, such as
// "127.1", are names to us.
bool is_address(std::string_view host) {
  in_addr four{};
  return host.starts_with('[') || ::inet_pton(AF_INET, std::string(host).c_str(), &four) == 1;
}

bool is_allowed_host(std::string_view text, const GuardConfig& config) {
  const std::optional<Authority> authority = normalise_authority(text);
  if (!authority) return false;
  // Whatever the port, which may be one that is forwarded to ours.
  if (is_address(authority->host)) return text.find('@') == std::string_view::npos;
  if (authority->host == "localhost" && authority->port == config.port) return true;
  return std::any_of(config.host_names.begin(), config.host_names.end(), [&](const auto& entry) {
    const bool has_port = entry.find(':', entry.rfind(']') + 1) != std::string::npos;
    return normalise_authority(has_port ? entry : str(entry, ":", config.port)) == authority;
  });
}

std::optional<Refusal> judge_host(const Request& request, const GuardConfig& config) {
  if (!config.check_host) return std::nullopt;
  const auto refuse = [](std::string_view host) {
    return forbid(str("host \"", printable(host),
                      "\" is not allowed here; use the address of the daemon, or add the name to "
                      "caisson.allowed_hosts in its configuration"));
  };
  if (!request.target_authority.empty() && !is_allowed_host(request.target_authority, config)) {
    return refuse(request.target_authority);
  }
  const std::string* host = request.find("host");
  if (host == nullptr) return refuse("");
  if (!is_allowed_host(*host, config)) return refuse(*host);
  return std::nullopt;
}

bool is_allowed_origin(const std::string& origin, const GuardConfig& config) {
  if (std::find(config.origins.begin(), config.origins.end(), origin) != config.origins.end()) {
    return true;
  }
  if (!config.check_host) return false;
  const std::string port = config.port == 80 ? "" : str(":", config.port);
  return std::any_of(kLoopbackHosts.begin(), kLoopbackHosts.end(),
                     [&](std::string_view host) { return origin == str("http://", host, port); });
}

std::optional<Refusal> judge_origin(const Request& request, const GuardConfig& config) {
  for (const Header& header : request.headers) {
    if (same_name(header.name, "origin") && !is_allowed_origin(header.value, config)) {
      return forbid(str("origin \"", printable(header.value),
                        "\" is not allowed here; add it to the daemon's allowed origins"));
    }
    if (same_name(header.name, "sec-fetch-site") && to_lower(header.value) == "cross-site") {
      return forbid("requests from other web sites are not allowed");
    }
  }
  return std::nullopt;
}

// Whether a proxy says that it sends this for somebody else.
bool is_forwarded(const Request& request) {
  constexpr std::array<std::string_view, 5> kHeaders = {"forwarded", "via", "x-forwarded-for",
                                                        "x-forwarded-host", "x-real-ip"};
  return std::any_of(kHeaders.begin(), kHeaders.end(),
                     [&](std::string_view name) { return request.find(name) != nullptr; });
}

// The token of "Bearer TOKEN"; empty for another scheme, which no token equals.
std::string_view bearer_token(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  if (to_lower(value.substr(0, kScheme.size())) != kScheme) return {};
  return trim(value.substr(kScheme.size()));
}

Judgement judge_token(const Request& request, const GuardConfig& config, const Peer& peer,
                      bool route_needs_token) {
  for (const auto& [name, value] : request.query) {
    const std::string lower = to_lower(name);
    if (lower == "token" || lower == "access_token") {
      return {
          Refusal{400, ErrorCode::validation_error,
                  "a token in the query ends up in logs; send it as \"Authorization: Bearer\""}};
    }
  }
  std::size_t sent = 0;
  bool right = false;
  for (const Header& header : request.headers) {
    if (!same_name(header.name, "authorization")) continue;
    ++sent;
    right = equal_in_constant_time(bearer_token(header.value), config.token);
  }
  if (asks_for_websocket(request)) {
    for (const std::string_view entry : list_header(request.headers, "sec-websocket-protocol")) {
      if (!entry.starts_with(kBearerSubprotocol)) continue;
      ++sent;
      right = equal_in_constant_time(entry.substr(kBearerSubprotocol.size()), config.token);
    }
  }
  if (sent == 1 && right) return {.refusal = {}, .trust = Trust::token};
  const bool forwarded = peer.trust == Trust::user && config.check_host && is_forwarded(request);
  const Trust trust = forwarded ? Trust::none : peer.trust;
  if (sent == 0 && (trust != Trust::none || !route_needs_token)) {
    return {.refusal = {}, .trust = trust};
  }
  return {Refusal{401, ErrorCode::unauthorized, unauthorized_message(peer)}};
}

}  // namespace

std::optional<Authority> normalise_authority(std::string_view text) {
  text.remove_prefix(text.rfind('@') + 1);  // npos + 1 is 0: no user
  Authority authority;
  const std::size_t bracket = text.rfind(']');
  const std::size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const bool numeric = digits.find_first_not_of("0123456789") == std::string_view::npos;
    const auto port = parse_integer(digits);
    if (!numeric || !port || *port < 1 || *port > 65535) return std::nullopt;
    authority.port = static_cast<std::uint16_t>(*port);
  }
  authority.host = to_lower(text.substr(0, colon));
  if (authority.host.starts_with('[')) {
    if (!authority.host.ends_with(']')) return std::nullopt;
    const std::optional<std::string> literal = normalise_literal(authority.host);
    if (!literal) return std::nullopt;
    authority.host = *literal;
    return authority;
  }
  if (authority.host.ends_with('.')) authority.host.pop_back();
  if (authority.host.empty()) return std::nullopt;
  if (!std::all_of(authority.host.begin(), authority.host.end(), is_name_char)) return std::nullopt;
  return authority;
}

std::string unauthorized_message(const Peer& peer) {
  constexpr std::string_view kToken =
      "a valid token is required; send it as \"Authorization: Bearer TOKEN\"";
  if (!peer.uid || peer.is_known()) return std::string(kToken);
  return str(kToken, ", or let user ", *peer.uid, " in with \"allowed_users: [", *peer.uid,
             "]\" below \"caisson:\" in the daemon's configuration");
}

bool equal_in_constant_time(std::string_view presented, std::string_view secret) {
  // An empty secret is no secret: nothing equals it.
  unsigned difference = secret.empty() || presented.size() != secret.size() ? 1 : 0;
  for (std::size_t i = 0; i < presented.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned>(static_cast<unsigned char>(presented[i] ^ other));
  }
  return difference == 0;
}

Judgement judge(const Request& request, const GuardConfig& config, const Peer& peer,
                bool route_needs_token, std::string_view unforgeable_header) {
  const bool no_page = !unforgeable_header.empty() && asks_for_websocket(request) &&
                       request.find(unforgeable_header) != nullptr;
  if (!no_page) {
    if (auto refusal = judge_host(request, config)) return {std::move(refusal)};
  }
  if (auto refusal = judge_origin(request, config)) return {std::move(refusal)};
  return judge_token(request, config, peer, route_needs_token);
}

}  // namespace caisson::net
