#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "daemon.h"
#include "measurements.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

constexpr double kMegabyte = 1'000'000;

// A process of the daemon's, and a client at its relay.
class Scene {
 public:
  Scene() : client_(daemon_.connect(loop_)) {
    loop_.await(ask(*client_, "POST", "/v1/sessions/relay", "{}"));
    start("cat", R"({"process_id":"cat","command":"cat"})");
  }

  void start(const std::string& id, std::string spec) {
    loop_.await(ask(*client_, "POST", "/v1/sessions/relay/managed-process", std::move(spec)));
    process_ = id;
  }
  std::string get(const std::string& id) {
    return loop_.await(ask(*client_, "GET", str("/v1/sessions/relay/managed-process/", id)));
  }

  void attach() {
    socket_.reset();
    relay_client_ = daemon_.connect(loop_);
    net::WebSocketRequest request;
    request.target = str("/v1/sessions/relay/managed-process/", process_, "/ws");
    request.subprotocols = {"mcp"};
    net::WebSocketAnswer answer = loop_.await(relay_client_->open_websocket(std::move(request)));
    if (!answer.socket) throw Error(ErrorCode::internal_error, answer.response.body);
    socket_.emplace(std::move(*answer.socket));
  }
  void detach() {
    loop_.await(socket_->close());
    socket_.reset();
  }

  void echo(const std::string& line) { loop_.await(echo_once(*socket_, line)); }
  // Sends all of them while it reads: the answers begin before the last is sent.
  void echo_many(const std::string& line, unsigned count) {
    std::vector<Task<void>> both;
    both.push_back(send(*socket_, line, count));
    both.push_back(receive(*socket_, line.size(), count));
    loop_.await_all(std::move(both));
  }

  // The connections of before are lost.
  void kill_daemon() {
    daemon_.kill_and_start();
    client_ = daemon_.connect(loop_);
  }

 private:
  static Task<void> echo_once(net::WebSocket& socket, std::string line) {
    const std::size_t size = line.size();
    co_await socket.write_text(std::move(line));
    co_await receive(socket, size, 1);
  }
  static Task<void> send(net::WebSocket& socket, std::string line, unsigned count) {
    for (; count > 0; --count) co_await socket.write_text(line);
  }
  static Task<void> receive(net::WebSocket& socket, std::size_t size, unsigned count) {
    for (; count > 0; --count) {
      const std::optional<net::Message> message = co_await socket.read();
      if (!message || message->data.size() != size) {
        throw Error(ErrorCode::internal_error, "the relay lost a line");
      }
    }
  }

  DaemonProcess daemon_{true};
  Loop loop_;
  std::unique_ptr<net::Client> client_;
  std::unique_ptr<net::Client> relay_client_;
  std::optional<net::WebSocket> socket_;
  std::string process_;
};

void add(Report& report, std::string name, Unit unit, const Summary& ours) {
  report.figures.push_back(
      {.measurement = "processes", .name = std::move(name), .unit = unit, .ours = ours});
}

void measure_echo(Scene& scene, const Options& options, Report& report) {
  const std::string line(100, 'x');
  scene.attach();
  Samples round_trip;
  for (int i = 0; i < (options.quick ? 50 : 5000); ++i) {
    const double took = milliseconds_of([&] { scene.echo(line); });
    round_trip.add(took);
  }
  add(report, "relay: round trip of 100 bytes", Unit::milliseconds, round_trip.summary());
  const double p99 = round_trip.quantile(0.99);
  add(report, "relay: round trip of 100 bytes, 99 % are below", Unit::milliseconds,
      {.n = round_trip.summary().n, .median = p99, .min = p99, .p90 = p99});

  const std::string long_line(60'000, 'y');
  const unsigned lines = options.quick ? 100 : 2000;
  Samples rate;
  for (int i = 0; i < (options.quick ? 2 : 9); ++i) {
    const double took = milliseconds_of([&] { scene.echo_many(long_line, lines); });
    rate.add(static_cast<double>(long_line.size()) * lines / kMegabyte / (took / 1000));
  }
  add(report, "relay: echo, MB a second", Unit::per_second, rate.summary());
  scene.detach();

  Samples attach;
  for (int i = 0; i < (options.quick ? 5 : 200); ++i) {
    attach.add(milliseconds_of([&] {
      scene.attach();
      scene.echo(line);
    }));
    scene.detach();
  }
  add(report, "relay: connect, attach and one echo", Unit::milliseconds, attach.summary());
}

void measure_journal(Scene& scene, const Options& options, Report& report) {
  const unsigned megabytes = options.quick ? 50 : 1000;
  Samples rate;
  for (int i = 0; i < (options.quick ? 2 : 5); ++i) {
    const double took = milliseconds_of([&] {
      scene.start("flood", str(R"({"process_id":"flood","command":"head","args":["-c",")",
                               megabytes, R"(MB","/dev/zero"]})"));
      while (scene.get("flood").find("\"status\":\"exited\"") == std::string::npos) {
      }
    });
    rate.add(megabytes / (took / 1000));
  }
  add(report, "journal: output of a process, MB a second", Unit::per_second, rate.summary());
}

void measure_recovery(Scene& scene, const Options& options, Report& report) {
  scene.start("cat", R"({"process_id":"cat","command":"cat"})");
  Samples back;
  for (int i = 0; i < (options.quick ? 2 : 20); ++i) {
    scene.attach();
    scene.echo("before");
    back.add(milliseconds_of([&] {
      scene.kill_daemon();
      scene.attach();
      scene.echo("after");
    }));
  }
  add(report, "relay: back after the daemon was killed", Unit::milliseconds, back.summary());
}

}  // namespace

void measure_processes(const Options& options, Report& report) {
  Scene scene;
  measure_echo(scene, options, report);
  measure_journal(scene, options, report);
  measure_recovery(scene, options, report);
  report.note(
      "relay: `cat` in a box behind a websocket, one line a message, one client; echo: lines of "
      "60,000 bytes, sent while answers are read; back: SIGKILL, start, connect, attach, one echo");
}

}  // namespace caisson::benchmarks
