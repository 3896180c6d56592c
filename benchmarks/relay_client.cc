#include "relay_client.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::benchmarks {

namespace {

RelayPlace place_of(const boost::json::object& told) {
  RelayPlace place{.address = str("http://127.0.0.1:", told.at("port").as_int64()),
                   .target = std::string(told.at("target").as_string()),
                   .headers = {}};
  for (const auto& [name, header] : told.at("headers").as_object()) {
    place.headers.push_back({std::string(name), std::string(header.as_string())});
  }
  return place;
}

}  // namespace

void RelayClient::attach(const RelayPlace& place) {
  socket_.reset();
  net::ClientConfig config;
  config.address = place.address;
  client_ = std::make_unique<net::Client>(loop_.executor(), std::move(config));
  net::WebSocketRequest request;
  request.target = place.target;
  request.headers = place.headers;
  request.subprotocols = {"mcp"};
  net::WebSocketAnswer answer = loop_.await(client_->open_websocket(std::move(request)));
  if (!answer.socket) {
    throw Error(ErrorCode::internal_error,
                str(place.target, ": ", answer.response.status, " ", answer.response.body));
  }
  socket_.emplace(std::move(*answer.socket));
}

void RelayClient::detach() {
  loop_.await(socket_->close());
  socket_.reset();
}

void RelayClient::echo_many(const std::string& line, unsigned count) {
  std::vector<Task<void>> both;
  both.push_back(send(*socket_, line, count));
  both.push_back(receive(*socket_, line.size() * count));
  loop_.await_all(std::move(both));
}

Task<void> RelayClient::echo_once(net::WebSocket& socket, std::string line) {
  const std::size_t size = line.size();
  co_await socket.write_text(std::move(line));
  co_await receive(socket, size);
}

Task<void> RelayClient::send(net::WebSocket& socket, std::string line, unsigned count) {
  for (; count > 0; --count) co_await socket.write_text(line);
}

Task<void> RelayClient::receive(net::WebSocket& socket, std::size_t bytes) {
  for (std::size_t got = 0; got < bytes;) {
    const std::optional<net::Message> message = co_await socket.read();
    if (!message) throw Error(ErrorCode::internal_error, "the relay has closed the connection");
    got += message->data.size() - count_of('\n', message->data);
  }
}

std::vector<std::unique_ptr<LangBotRelay>> LangBotRelay::start_all(Report& report) {
  std::vector<std::unique_ptr<LangBotRelay>> started;
  if (!has_langbot()) {
    report.note("LangBot's runtime is not installed: there is nothing to compare the relay with");
    return started;
  }
  const auto start = [&](std::string name, const std::vector<std::string>& arguments) {
    try {
      started.emplace_back(new LangBotRelay(name, arguments));
    } catch (const std::exception& error) {  // also when it says something else than we expect
      report.note(str(name, " could not be measured: ", error.what()));
    }
  };
  start("LangBot's runtime, without a box", {});
  if (const std::optional<std::string> image = docker_image_for_langbot(report)) {
    start("LangBot's runtime (Docker)", {"docker", *image});
  }
  return started;
}

LangBotRelay::LangBotRelay(std::string name, const std::vector<std::string>& arguments)
    : name_(std::move(name)),
      script_("langbot_relay.py", arguments),
      place_(place_of(script_.hear())) {}

}  // namespace caisson::benchmarks
