#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

// How an HTTP request becomes a websocket (RFC 6455, section 4). Everything but the making of keys
// is pure.
namespace caisson::net {

// A client that cannot set headers sends its token as one more subprotocol, with this in front. A
// browser insists on an answer to its offer, so it offers a real one besides.
inline constexpr std::string_view kBearerSubprotocol = "caisson.bearer.";

// The entries of all headers of that name, whose values are lists; empty ones are left out.
std::vector<std::string_view> list_header(const std::vector<Header>& headers,
                                          std::string_view name);

// Whether the request asks for a websocket, rightly or not.
bool asks_for_websocket(const Request& request);
// The answer to a request that is no proper handshake: 426 when another one would do, 400 when it
// is malformed. nullopt: it can be accepted.
std::optional<Response> refuse_handshake(const Request& request);
// What the client offers, in its order of preference, without its token.
std::vector<std::string> offered_subprotocols(const Request& request);

// The headers of the answer 101. Throws internal_error for a subprotocol that was not offered.
std::vector<Header> accept_headers(const Request& request, const std::string& subprotocol);

// 16 random bytes, as a client sends them.
std::string make_websocket_key();
// What a server that has understood the key answers.
std::string accept_of_key(std::string_view key);
// The headers of a client's request. Throws validation_error for a subprotocol that is no token.
std::vector<Header> request_headers(const std::string& key,
                                    const std::vector<std::string>& subprotocols);
// What an answer 101 comes to.
struct Accepted {
  std::string subprotocol;  // that the server chose; empty for none
  std::string_view fault;   // why the answer does not fit the request; empty when it does
};
Accepted check_accepted(const Response& response, const std::string& key,
                        const std::vector<std::string>& subprotocols);

}  // namespace caisson::net
