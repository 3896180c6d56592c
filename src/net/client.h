#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "net/http.h"
#include "net/websocket.h"

namespace caisson::net {

struct ClientConfig {
  std::string address;  // "http://127.0.0.1:5410" or "unix:/run/caisson/api.sock"
  std::string token;    // sent as a bearer token unless empty
  std::chrono::milliseconds connect_deadline{5'000};
  std::size_t max_head = 64u << 10;
  std::uint64_t max_body = 64u << 20;  // of an answer that is read whole
};

// The pieces of a body that is sent as it is made; nullopt at the end.
using ChunkSource = std::function<Task<std::optional<std::string>>()>;

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  std::vector<Header> headers;
  std::string body;    // with Content-Type: application/json unless the headers say otherwise
  ChunkSource source;  // instead of a body
  std::chrono::milliseconds patience{60'000};  // without a byte in either direction
};

struct WebSocketRequest {
  std::string target = "/";
  std::vector<Header> headers;
  std::vector<std::string> subprotocols;       // the best first
  WebSocketOptions options;                    // the subprotocol is what the server chooses
  std::chrono::milliseconds patience{10'000};  // for the answer
};

struct WebSocketAnswer {
  Response response;                // whole, when it is a refusal
  std::optional<WebSocket> socket;  // with status 101
};

// A client of one server over one connection, which is kept for the next request. One request at a
// time. Failures are Errors: backend_unavailable when nobody answers at the address, timeout,
// protocol_error for an answer that is malformed or cut.
class Client {
 public:
  Client(boost::asio::any_io_executor executor, ClientConfig config);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // The whole answer, whatever its status.
  Task<Response> request(ClientRequest request);

  // The head of the answer, whose body then comes in pieces, as they arrive; nullopt at the end.
  // What is not read by the next request is given up together with the connection.
  Task<Response> open(ClientRequest request);
  Task<std::optional<std::string>> read_some();

  // The connection becomes the websocket's, which may outlive the client.
  Task<WebSocketAnswer> open_websocket(WebSocketRequest request);

  void close();

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace caisson::net
