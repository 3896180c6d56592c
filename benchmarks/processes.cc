#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/str.h"
#include "daemon.h"
#include "measurements.h"
#include "relay_client.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

constexpr double kMegabyte = 1'000'000;
constexpr std::size_t kLongLine = 60'000;  // near the longest that LangBot's runtime can read
constexpr std::size_t kShortLine = 1'000;
constexpr const char* kProcesses = "/v1/sessions/relay/managed-process";

// A daemon with `cat` in a session of it.
class Scene {
 public:
  Scene() : client_(daemon_.connect(loop_)) {
    loop_.await(ask(*client_, "POST", "/v1/sessions/relay", "{}"));
    start(R"({"process_id":"cat","command":"cat"})");
  }

  void start(std::string spec) { loop_.await(ask(*client_, "POST", kProcesses, std::move(spec))); }
  bool has_ended(const std::string& id) {
    const std::string shown = loop_.await(ask(*client_, "GET", str(kProcesses, "/", id)));
    return shown.find("\"status\":\"exited\"") != std::string::npos;
  }
  RelayPlace place() const {
    return {.address = daemon_.address(), .target = str(kProcesses, "/cat/ws"), .headers = {}};
  }
  Loop& loop() { return loop_; }

  // The connections of before are lost.
  void kill_daemon() {
    daemon_.kill_and_start();
    client_ = daemon_.connect(loop_);
  }

 private:
  DaemonProcess daemon_{true};
  Loop loop_;
  std::unique_ptr<net::Client> client_;
};

// One relay, ours or one of theirs, a client of it, and what was measured of it.
struct Relay {
  Relay(Loop& loop, std::string of, RelayPlace where)
      : name(std::move(of)), place(std::move(where)), client(loop) {}

  std::string name;
  RelayPlace place;
  RelayClient client;
  Samples round_trip;
  Samples rate;         // long lines, megabytes a second
  Samples short_lines;  // a second
  Samples attach;
};
using Relays = std::vector<std::unique_ptr<Relay>>;  // the first is ours

const std::string& short_line() {
  static const std::string line(100, 'x');
  return line;
}

void echo_in_turns(std::string_view title, const Relays& relays, unsigned rounds,
                   const std::function<void(Relay&, bool counts)>& run) {
  std::vector<Contender> contenders;
  for (const std::unique_ptr<Relay>& relay : relays) {
    contenders.push_back({[&run, &relay](bool counts) { run(*relay, counts); }});
  }
  take_turns(title, contenders, rounds);
}

void measure_attach(const Relays& relays, unsigned rounds) {
  echo_in_turns("attach", relays, rounds, [](Relay& relay, bool counts) {
    const double took = milliseconds_of([&] {
      relay.client.attach(relay.place);
      relay.client.echo(short_line());
    });
    if (counts) relay.attach.add(took);
    relay.client.detach();
  });
}

void measure_round_trips(const Relays& relays, unsigned rounds) {
  echo_in_turns("round trips", relays, rounds, [](Relay& relay, bool counts) {
    const double took = milliseconds_of([&] { relay.client.echo(short_line()); });
    if (counts) relay.round_trip.add(took);
  });
}

// Lines a second, sent while the answers are read.
double echo_rate(RelayClient& client, std::size_t size, unsigned lines) {
  const std::string line(size, 'y');
  return lines / (milliseconds_of([&] { client.echo_many(line, lines); }) / 1000);
}

void measure_rates(const Relays& relays, bool quick) {
  const unsigned rounds = quick ? 2 : 9;
  echo_in_turns("echo", relays, rounds, [&](Relay& relay, bool counts) {
    const double lines = echo_rate(relay.client, kLongLine, quick ? 100 : 2000);
    if (counts) relay.rate.add(lines * kLongLine / kMegabyte);
  });
  echo_in_turns("echo of short lines", relays, rounds, [&](Relay& relay, bool counts) {
    const double lines = echo_rate(relay.client, kShortLine, quick ? 500 : 10'000);
    if (counts) relay.short_lines.add(lines);
  });
}

void add(Report& report, std::string name, Unit unit, const Summary& ours,
         std::optional<Peer> peer = std::nullopt, std::optional<Goal> goal = std::nullopt) {
  report.figures.push_back({.measurement = "processes",
                            .name = std::move(name),
                            .unit = unit,
                            .ours = ours,
                            .peer = std::move(peer),
                            .goal = goal});
}

Summary p99(const Samples& samples) {
  const double value = samples.quantile(0.99);
  return {.n = samples.summary().n, .median = value, .min = value, .p90 = value};
}

// A line of the table for each peer, or one without any.
void report_echo(const Relays& relays, Report& report) {
  const Relay& ours = *relays.front();
  const auto show = [&](const char* name, Unit unit, auto&& figure,
                        std::optional<Goal> goal = std::nullopt) {
    if (relays.size() == 1) add(report, name, unit, figure(ours), std::nullopt, goal);
    for (std::size_t i = 1; i < relays.size(); ++i) {
      add(report, name, unit, figure(ours), Peer{relays[i]->name, figure(*relays[i])}, goal);
    }
  };
  show(
      "relay: round trip of 100 bytes", Unit::milliseconds,
      [](const Relay& relay) { return relay.round_trip.summary(); },
      Goal{Goal::Of::ratio, Goal::Bound::at_most, 0.5});
  show("relay: round trip of 100 bytes, 99 % are below", Unit::milliseconds,
       [](const Relay& relay) { return p99(relay.round_trip); });
  show(
      "relay: echo, MB a second", Unit::per_second,
      [](const Relay& relay) { return relay.rate.summary(); },
      Goal{Goal::Of::ratio, Goal::Bound::at_least, 4});
  show("relay: echo, lines of 1,000 bytes a second", Unit::per_second,
       [](const Relay& relay) { return relay.short_lines.summary(); });
  show("relay: connect, attach and one echo", Unit::milliseconds,
       [](const Relay& relay) { return relay.attach.summary(); });
}

void measure_echo(Scene& scene, const Options& options, Report& report) {
  const auto langbot = LangBotRelay::start_all(report);
  Relays relays;
  relays.push_back(std::make_unique<Relay>(scene.loop(), "Caisson", scene.place()));
  for (const auto& theirs : langbot) {
    relays.push_back(std::make_unique<Relay>(scene.loop(), theirs->name(), theirs->place()));
  }
  measure_attach(relays, options.quick ? 5 : 200);
  for (const auto& relay : relays) relay->client.attach(relay->place);
  measure_round_trips(relays, options.quick ? 50 : 4000);
  measure_rates(relays, options.quick);
  for (const auto& relay : relays) relay->client.detach();
  report_echo(relays, report);
}

void measure_journal(Scene& scene, const Options& options, Report& report) {
  const unsigned megabytes = options.quick ? 50 : 1000;
  Samples rate;
  for (int i = 0; i < (options.quick ? 2 : 5); ++i) {
    const double took = milliseconds_of([&] {
      scene.start(str(R"({"process_id":"flood","command":"head","args":["-c",")", megabytes,
                      R"(MB","/dev/zero"]})"));
      while (!scene.has_ended("flood")) {
      }
    });
    rate.add(megabytes / (took / 1000));
  }
  add(report, "journal: output of a process, MB a second", Unit::per_second, rate.summary());
}

void measure_recovery(Scene& scene, const Options& options, Report& report) {
  Samples back;
  RelayClient client(scene.loop());
  for (int i = 0; i < (options.quick ? 2 : 20); ++i) {
    client.attach(scene.place());
    client.echo("before");
    back.add(milliseconds_of([&] {
      scene.kill_daemon();
      client.attach(scene.place());
      client.echo("after");
    }));
    client.detach();
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
      "relay: `cat` behind a websocket, ours in a box and one line a message, the peer's as it is "
      "read; echo: lines of 60,000 bytes unless said otherwise, sent while answers are read; back: "
      "SIGKILL, start, connect, attach, one echo");
}

}  // namespace caisson::benchmarks
