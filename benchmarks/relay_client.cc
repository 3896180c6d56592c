#include "relay_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"

namespace caisson::benchmarks {

namespace {

constexpr const char* kPython = "CAISSON_BENCH_LANGBOT";

std::string read_line(int fd) {
  std::string line;
  char byte = 0;
  while (::read(fd, &byte, 1) == 1 && byte != '\n') line.push_back(byte);
  return line;
}

RelayPlace read_place(const std::string& line) {
  const boost::json::value value = boost::json::parse(line);
  const boost::json::object& told = value.as_object();
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
    const std::string& data = message->data;
    got += data.size() - static_cast<std::size_t>(std::count(data.begin(), data.end(), '\n'));
  }
}

std::unique_ptr<LangBotRelay> LangBotRelay::start(Report& report) {
  const char* python = std::getenv(kPython);
  if (python == nullptr) {
    report.note("LangBot's runtime is not installed: there is nothing to compare the relay with");
    return nullptr;
  }
  try {
    return std::unique_ptr<LangBotRelay>(new LangBotRelay(python));
  } catch (const std::exception& error) {
    report.note(str("LangBot's runtime could not be measured: ", error.what()));
    return nullptr;
  }
}

LangBotRelay::LangBotRelay(const std::string& python) {
  auto [in, input] = make_pipe();
  auto [output, out] = make_pipe();
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  Command command;
  command.argv = {python, CAISSON_LANGBOT_RELAY};
  command.env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"};
  command.fds = {{in.get(), 0}, {out.get(), 1}, {null.get(), 2}};
  process_ = spawn(command);
  input_ = std::move(input);
  out.reset();
  place_ = read_place(read_line(output.get()));
}

LangBotRelay::~LangBotRelay() {
  input_.reset();
  if (process_.running()) process_.wait();
}

}  // namespace caisson::benchmarks
