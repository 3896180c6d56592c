#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/http.h"
#include "net/peer.h"

namespace caisson::net {

// Who may speak to the daemon. A web page that a user happens to visit can reach a port of the same
// machine, directly or through a name that is rebound to it; Host, Origin and Sec-Fetch-Site are
// what it cannot forge.
struct GuardConfig {
  std::uint16_t port = 0;  // the one that requests must name
  bool check_host = true;  // off where no browser can come from: a unix socket
  // Names that are allowed besides "localhost": "name" or "name:port". Addresses need no leave: no
  // name server can make them mean another host.
  std::vector<std::string> host_names;
  std::vector<std::string> origins;  // allowed besides our own: "https://box.example"
  std::string token;                 // empty: there is none
};

struct Refusal {
  int status = 403;
  ErrorCode code = ErrorCode::forbidden;
  std::string message;
};

// What somebody is told who is not let in: what to show or, where the user is known, also which
// line of the configuration would do instead.
std::string unauthorized_message(const Peer& peer);

struct Judgement {
  std::optional<Refusal> refusal;  // nullopt: the request may go on to its route
  Trust trust = Trust::none;       // in whoever sent it
};

// Whether a request may go on to its route. Pure. Where the route needs trust, a peer that is not
// known shows the token; so does who sends it through a proxy, which has a user of its own. A token
// that is shown must be right everywhere. It is a bearer token, or an
// entry of the subprotocols that a websocket is asked for with (kBearerSubprotocol). For
// `unforgeable_header` see RouteOptions.
Judgement judge(const Request& request, const GuardConfig& config, const Peer& peer,
                bool route_needs_token, std::string_view unforgeable_header = {});

// "LocalHost.:80" and "localhost" are the same: lower case, no final dot, no user, addresses in
// their shortest spelling, port 80 when there is none. nullopt when it is no authority.
struct Authority {
  std::string host;
  std::uint16_t port = 80;
  bool operator==(const Authority&) const = default;
};
std::optional<Authority> normalise_authority(std::string_view text);

// Takes the same time wherever the two differ.
bool equal_in_constant_time(std::string_view presented, std::string_view secret);

}  // namespace caisson::net
