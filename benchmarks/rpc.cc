#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str.h"
#include "daemon.h"
#include "langbot.h"
#include "measurements.h"
#include "peers.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

constexpr double kAtATime = 128;  // of one call named "pings" or "execs"

// What the runtime's nsjail backend once measured: a warm exec of 16.2 ms with a ping of 0.65 ms,
// and 125 execs a second. We want an eighth of the first, in pings, and ten times the second: of
// what it does here, where it has boxes here.
constexpr double kPingsOfAnExec = 3.1;
constexpr double kTimesItsExecs = 10;
constexpr double kExecsASecond = 125 * kTimesItsExecs;
constexpr const char* kNsjail = "nsjail";
constexpr const char* kWithoutBox = "host, without a box";

// A server, ours or theirs, and the process that is its client.
struct Side {
  Side(std::string of, const std::vector<std::string>& arguments, bool containers)
      : name(std::move(of)),
        slow(containers),
        client(std::make_unique<LangBotScript>("langbot_rpc.py", arguments)) {
    version = std::string(client->hear().at("version").as_string());
  }

  double call(std::string_view what) {
    client->tell(what);
    return client->hear().at("ms").to_number<double>();
  }

  std::string name;
  bool slow;  // takes part seldom
  std::string version;
  std::unique_ptr<LangBotScript> client;  // none once it has failed
};

std::unique_ptr<Side> start_peer(Report& report) {
  const std::optional<std::string> image = docker_image_for_langbot(report);
  try {
    if (image) {
      return std::make_unique<Side>("Docker", std::vector<std::string>{"docker", *image}, true);
    }
    if (is_installed(kNsjail)) {
      return std::make_unique<Side>(kNsjail, std::vector<std::string>{kNsjail}, false);
    }
    return std::make_unique<Side>(kWithoutBox, std::vector<std::string>{"host"}, false);
  } catch (const Error& error) {
    report.note(str("`lbp box` could not be measured: ", error.what()));
    return nullptr;
  }
}

// One thing to measure, of both sides.
struct Call {
  std::string name;  // as the client knows it
  Figure figure;
  unsigned slow_every;  // how often a slow side takes part
  Samples ours;
  Samples theirs;
};

// What is shown of a call that took so many milliseconds.
double shown(const Figure& figure, double took) {
  return figure.unit == Unit::per_second ? kAtATime / (took / 1000) : took;
}

class Comparison {
 public:
  Comparison(Side& ours, Side* theirs, Report& report)
      : ours_(ours), theirs_(theirs), report_(report) {}

  // All calls of both sides in turns; then their figures have both medians.
  void run(std::vector<Call>& calls, unsigned rounds) {
    std::vector<Contender> contenders;
    for (Call& call : calls) {
      contenders.push_back({[&](bool counts) {
        const double took = ours_.call(call.name);
        if (counts) call.ours.add(shown(call.figure, took));
      }});
      if (theirs_ == nullptr) continue;
      contenders.push_back({.run =
                                [&](bool counts) {
                                  const std::optional<double> took = call_peer(call.name);
                                  if (counts && took) call.theirs.add(shown(call.figure, *took));
                                },
                            .every = theirs_->slow ? call.slow_every : 1});
    }
    take_turns(str("rpc ", calls.front().name), contenders, rounds);
    for (Call& call : calls) {
      call.figure.ours = call.ours.summary();
      if (call.theirs.empty()) continue;
      call.figure.peer =
          Peer{str("lbp box ", theirs_->version, " (", theirs_->name, ")"), call.theirs.summary()};
    }
  }

 private:
  // A peer that fails is left out from there on.
  std::optional<double> call_peer(const std::string& name) {
    if (!theirs_->client) return std::nullopt;
    try {
      return theirs_->call(name);
    } catch (const Error& error) {
      report_.note(str("`lbp box` failed, at ", name, ": ", error.what()));
      theirs_->client.reset();
      return std::nullopt;
    }
  }

  Side& ours_;
  Side* theirs_;
  Report& report_;
};

std::string websocket_of(const DaemonProcess& daemon) {
  return str("ws", daemon.address().substr(std::string_view("http").size()), "/rpc/ws");
}

}  // namespace

void measure_rpc(const Options& options, Report& report) {
  if (!has_langbot()) {
    report.note("langbot-plugin is not installed: there is no client for Action RPC");
    return;
  }
  const DaemonProcess daemon(true);
  Side ours("Caisson", {websocket_of(daemon)}, false);
  const std::unique_ptr<Side> theirs = start_peer(report);
  Comparison compare(ours, theirs.get(), report);
  const auto call = [](std::string name, std::string title, Unit unit, unsigned slow_every) {
    return Call{.name = std::move(name),
                .figure = {.measurement = "rpc", .name = std::move(title), .unit = unit},
                .slow_every = slow_every};
  };

  std::vector<Call> warm{call("ping", "RPC: ping", Unit::milliseconds, 1),
                         call("exec", "RPC: warm exec", Unit::milliseconds, 20)};
  compare.run(warm, options.quick ? 10 : 200);
  Figure pings = warm[1].figure;
  pings.name = "RPC: warm exec, in pings";
  pings.peer = Peer{"ping, ours", warm[0].figure.ours};
  pings.goal = Goal{Goal::Of::ratio, Goal::Bound::at_most, kPingsOfAnExec};
  std::vector<Call> create{call("create", "RPC: create a session", Unit::milliseconds, 20)};
  compare.run(create, options.quick ? 5 : 100);
  std::vector<Call> many{
      call("pings", "RPC: pings a second, 128 at a time", Unit::per_second, 1),
      call("execs", "RPC: execs a second, 128 at a time over 16 sessions", Unit::per_second, 8)};
  compare.run(many, options.quick ? 2 : 8);
  many[1].figure.goal = theirs && theirs->name != kWithoutBox
                            ? Goal{Goal::Of::ratio, Goal::Bound::at_least, kTimesItsExecs}
                            : Goal{Goal::Of::ours, Goal::Bound::at_least, kExecsASecond};
  for (const Figure& figure :
       {warm[0].figure, warm[1].figure, pings, create[0].figure, many[0].figure, many[1].figure}) {
    report.figures.push_back(figure);
  }
  report.note(
      "RPC: the Python client of langbot-plugin on one connection, the same for both; its own time "
      "is part of every figure, and pings a second are about what it can do; `true` in a session "
      "that is there; a session is deleted after its creation was timed");
}

}  // namespace caisson::benchmarks
