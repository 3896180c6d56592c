#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "boxes.h"
#include "langbot.h"
#include "net/client.h"
#include "report.h"

namespace caisson::benchmarks {

// Where `cat` is behind a relay.
struct RelayPlace {
  std::string address;
  std::string target;
  std::vector<net::Header> headers;
};

// A client of a relay, ours or LangBot's: that one sends the pieces that it reads, newlines
// included, where ours sends lines. So bytes are counted, without newlines.
class RelayClient {
 public:
  explicit RelayClient(Loop& loop) : loop_(loop) {}

  void attach(const RelayPlace& place);
  void detach();
  void drop() { socket_.reset(); }  // without a word

  void echo(const std::string& line) { loop_.await(echo_once(*socket_, line)); }
  // Sends all of them while it reads: the answers begin before the last is sent.
  void echo_many(const std::string& line, unsigned count);

 private:
  static Task<void> echo_once(net::WebSocket& socket, std::string line);
  static Task<void> send(net::WebSocket& socket, std::string line, unsigned count);
  static Task<void> receive(net::WebSocket& socket, std::size_t bytes);

  Loop& loop_;
  std::unique_ptr<net::Client> client_;
  std::optional<net::WebSocket> socket_;
};

// LangBot's Python runtime with one of its backends (langbot_relay.py), ended with the object.
class LangBotRelay {
 public:
  // Without boxes and, where there is an engine for it, with Docker's; none, and a note, when it is
  // not installed.
  static std::vector<std::unique_ptr<LangBotRelay>> start_all(Report& report);

  const std::string& name() const { return name_; }
  const RelayPlace& place() const { return place_; }

 private:
  LangBotRelay(std::string name, const std::vector<std::string>& arguments);

  std::string name_;
  LangBotScript script_;
  RelayPlace place_;
};

}  // namespace caisson::benchmarks
