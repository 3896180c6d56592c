#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/task.h"
#include "net/peer.h"

namespace caisson {
class Event;
}

namespace caisson::net {

class Share;
class WebSocket;
struct WebSocketOptions;

struct Header {
  std::string name;
  std::string value;
  bool operator==(const Header&) const = default;
};

// Whether two header names are the same: their case does not count.
bool same_name(std::string_view left, std::string_view right);

// The first header of that name, whatever its case; null when there is none.
const std::string* find_header(const std::vector<Header>& headers, std::string_view name);

// A request whose head has been read and found well formed: the framing is unambiguous, there is at
// most one Host, and the path has no segment that could climb.
struct Request {
  std::string method;
  std::string target;             // as sent
  std::vector<std::string> path;  // "/a%2Fb/c" is {"a/b", "c"}, "/" is {}
  std::vector<std::pair<std::string, std::string>> query;
  std::vector<Header> headers;
  std::string target_authority;  // of an absolute-form target, otherwise empty
  int minor_version = 1;         // HTTP/1.0 or HTTP/1.1
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;  // the client would send another request on this connection

  const std::string* find(std::string_view name) const { return find_header(headers, name); }
  const std::string* find_query(std::string_view name) const;  // the first of that name, or null
  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<Header> headers;
  std::string body;
  std::string reason = {};  // of a refusal, for the log: it is not sent
};

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// One request and its answer, as a handler sees them. A handler answers once: reply(), or begin(),
// any number of write() and end(), or accept_websocket(). It may return without an answer when the
// client is gone.
// Everything lives on the thread of the server's event loop.
//
// Reads and writes throw Error when the client is gone or too slow; a handler need not catch it.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  // What stands in the path for "{name}" of the route's pattern.
  virtual const std::string& param(std::string_view name) const = 0;
  // Who asks, and why it may.
  virtual const Peer& peer() const = 0;

  // What memory that is kept for the client is taken from. Null: it is not counted.
  virtual std::shared_ptr<Share> share() const = 0;

  // The whole body. More than `limit`, or than the route allows, is payload_too_large, and is found
  // out before it is buffered; one that there is no room for is busy.
  virtual Task<std::string> read_body(std::uint64_t limit = kUnlimited) = 0;
  // The next piece of the body, as it comes in; nullopt at the end.
  virtual Task<std::optional<std::string>> read_some() = 0;

  virtual Task<void> reply(Response response) = 0;
  virtual Task<void> begin(int status, std::string content_type, std::vector<Header> headers) = 0;
  virtual Task<void> write(std::string chunk) = 0;
  virtual Task<void> end() = 0;

  // On a route that is a websocket's. The handler looks at offered_subprotocols() (handshake.h)
  // before, and may answer with something else. The conversation is closed when it returns.
  virtual Task<WebSocket> accept_websocket(WebSocketOptions options) = 0;

  // Happens when the client closes its side while the handler is at work. Watching begins with the
  // first call, so that a handler which never asks pays nothing.
  virtual const Event& client_gone() = 0;
};

using Handler = std::function<Task<void>(Exchange&)>;

}  // namespace caisson::net
