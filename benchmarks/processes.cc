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

struct EchoSamples {
  Samples round_trip;
  Samples rate;
  Samples attach;
};

const std::string& short_line() {
  static const std::string line(100, 'x');
  return line;
}

Contender round_trip(RelayClient& client, EchoSamples& samples) {
  return {[&client, &samples](bool counts) {
    const double took = milliseconds_of([&] { client.echo(short_line()); });
    if (counts) samples.round_trip.add(took);
  }};
}

Contender echo_rate(RelayClient& client, unsigned lines, EchoSamples& samples) {
  return {[&client, lines, &samples](bool counts) {
    const std::string line(60'000, 'y');
    const double took = milliseconds_of([&] { client.echo_many(line, lines); });
    if (counts) {
      samples.rate.add(static_cast<double>(line.size()) * lines / kMegabyte / (took / 1000));
    }
  }};
}

Contender attach(RelayClient& client, RelayPlace place, EchoSamples& samples) {
  return {[&client, place = std::move(place), &samples](bool counts) {
    const double took = milliseconds_of([&] {
      client.attach(place);
      client.echo(short_line());
    });
    if (counts) samples.attach.add(took);
    client.detach();
  }};
}

void add(Report& report, std::string name, Unit unit, const Summary& ours,
         std::optional<Summary> theirs = std::nullopt, std::optional<Goal> goal = std::nullopt) {
  Figure figure{.measurement = "processes", .name = std::move(name), .unit = unit, .ours = ours};
  if (theirs) figure.peer = Peer{"LangBot's runtime, without a box", *theirs};
  figure.goal = goal;
  report.figures.push_back(std::move(figure));
}

void measure_echo(Scene& scene, const Options& options, Report& report) {
  const std::unique_ptr<LangBotRelay> langbot = LangBotRelay::start(report);
  EchoSamples ours;
  EchoSamples theirs;
  RelayClient our_client(scene.loop());
  RelayClient their_client(scene.loop());
  const auto in_turns = [&](std::string_view title, unsigned rounds, auto make) {
    std::vector<Contender> contenders{make(our_client, scene.place(), ours)};
    if (langbot) contenders.push_back(make(their_client, langbot->place(), theirs));
    take_turns(title, contenders, rounds);
  };
  in_turns("attach", options.quick ? 5 : 200,
           [](RelayClient& client, RelayPlace place, EchoSamples& samples) {
             return attach(client, std::move(place), samples);
           });
  our_client.attach(scene.place());
  if (langbot) their_client.attach(langbot->place());
  in_turns("round trips", options.quick ? 50 : 4000,
           [](RelayClient& client, const RelayPlace&, EchoSamples& samples) {
             return round_trip(client, samples);
           });
  in_turns("echo", options.quick ? 2 : 9,
           [&](RelayClient& client, const RelayPlace&, EchoSamples& samples) {
             return echo_rate(client, options.quick ? 100 : 2000, samples);
           });
  our_client.detach();
  if (langbot) their_client.detach();

  const auto peer = [&](const Samples& samples) {
    return langbot ? std::optional(samples.summary()) : std::nullopt;
  };
  const auto p99 = [](const Samples& samples) {
    const double value = samples.quantile(0.99);
    return Summary{.n = samples.summary().n, .median = value, .min = value, .p90 = value};
  };
  add(report, "relay: round trip of 100 bytes", Unit::milliseconds, ours.round_trip.summary(),
      peer(theirs.round_trip), Goal{Goal::Of::ratio, Goal::Bound::at_most, 0.5});
  add(report, "relay: round trip of 100 bytes, 99 % are below", Unit::milliseconds,
      p99(ours.round_trip), langbot ? std::optional(p99(theirs.round_trip)) : std::nullopt);
  add(report, "relay: echo, MB a second", Unit::per_second, ours.rate.summary(), peer(theirs.rate),
      Goal{Goal::Of::ratio, Goal::Bound::at_least, 4});
  add(report, "relay: connect, attach and one echo", Unit::milliseconds, ours.attach.summary(),
      peer(theirs.attach));
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
      "relay: `cat` behind a websocket, ours in a box and one line a message, the peer's on the "
      "host and as it is read; echo: lines of 60,000 bytes, sent while answers are read; back: "
      "SIGKILL, start, connect, attach, one echo");
}

}  // namespace caisson::benchmarks
