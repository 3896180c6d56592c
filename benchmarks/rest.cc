#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "daemon.h"
#include "host_command.h"
#include "kernel_memory.h"
#include "measurements.h"
#include "peers.h"
#include "spawn_rate.h"
#include "turns.h"

namespace caisson::benchmarks {

namespace {

using Seconds = std::chrono::duration<double>;

// A client that keeps its connection, and the daemon it speaks to.
struct Caller {
  explicit Caller(bool pools) : daemon(pools), client(daemon.connect(loop)) {}

  void exec(const std::string& session) { loop.await(exec_in(*client, session)); }
  void remove(const std::string& session) {
    loop.await(ask(*client, "DELETE", str("/v1/sessions/", session)));
  }
  std::string status() { return loop.await(ask(*client, "GET", "/v1/status")); }

  // Until what is made ahead is there: it is the callers' pauses that pay for it.
  void wait_for(const std::string& figure) {
    const Deadline deadline = Clock::now() + std::chrono::seconds(5);
    while (status().find(figure) == std::string::npos && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  DaemonProcess daemon;
  Loop loop;
  std::unique_ptr<net::Client> client;
};

Contender warm_exec(Caller& caller, bool parked, Samples& samples) {
  return {[&caller, parked, &samples](bool counts) {
    if (parked) caller.wait_for("\"parked_shells\":1");
    const double took = milliseconds_of([&] { caller.exec("warm"); });
    if (counts) samples.add(took);
  }};
}

struct NewSessions {
  Samples first_exec;
  Samples remove;
};

Contender new_session(Caller& caller, bool pooled, NewSessions& samples) {
  return {[&caller, pooled, &samples, next = 0](bool counts) mutable {
    if (pooled) caller.wait_for("\"pooled_boxes\":1");
    const std::string name = str("new-", next++);
    const double exec = milliseconds_of([&] { caller.exec(name); });
    const double remove = milliseconds_of([&] { caller.remove(name); });
    if (!counts) return;
    samples.first_exec.add(exec);
    samples.remove.add(remove);
  }};
}

void measure_calls(Caller& ready, Caller& plain, const Options& options, Report& report) {
  Samples spawned;
  Samples parked;
  Samples unparked;
  NewSessions pooled;
  NewSessions cold;
  std::vector<Contender> contenders{{[&](bool counts) {
                                      const double took =
                                          milliseconds_of([] { run_checked(trivial_command()); });
                                      if (counts) spawned.add(took);
                                    }},
                                    warm_exec(ready, true, parked),
                                    warm_exec(plain, false, unparked),
                                    new_session(ready, true, pooled),
                                    new_session(plain, false, cold)};
  std::optional<PeerCommand> bwrap = probe_peer("bwrap", bwrap_command(), report);
  if (bwrap) contenders.push_back(bwrap->contender());
  take_turns("rest", contenders, options.quick ? 10 : 300);

  const auto add = [&report](std::string name, const Summary& ours, std::optional<Peer> peer,
                             std::optional<Goal> goal) {
    report.figures.push_back({.measurement = "rest",
                              .name = std::move(name),
                              .unit = Unit::milliseconds,
                              .ours = ours,
                              .peer = std::move(peer),
                              .goal = goal});
  };
  const auto at_most = [](double limit) {
    return Goal{Goal::Of::ratio, Goal::Bound::at_most, limit};
  };
  const Peer spawn{"posix_spawn", spawned.summary()};
  add("REST: warm exec, no parked shell", unparked.summary(), spawn, at_most(1.5));
  add("REST: warm exec, parked shell", parked.summary(), spawn, at_most(1.0));
  add("REST: first exec of a new session, from the pool", pooled.first_exec.summary(),
      Peer{"warm exec, parked shell", parked.summary()}, at_most(1.5));
  std::optional<Peer> sandbox;
  if (bwrap) sandbox = Peer{bwrap->name, bwrap->samples.summary()};
  add("REST: first exec of a new session, cold", cold.first_exec.summary(), sandbox, at_most(0.8));
  add("REST: delete a session", pooled.remove.summary(), std::nullopt, std::nullopt);
}

// One of several callers at the same time: like a thread of the peer's, each has a thread, a
// connection and a session of its own.
struct ParallelCaller {
  ParallelCaller(const DaemonProcess& daemon, std::size_t number)
      : client(daemon.connect(loop)), session(str("rate-", number)) {}

  unsigned exec_until(Deadline end) {
    unsigned done = 0;
    for (; Clock::now() < end; ++done) loop.await(exec_in(*client, session));
    return done;
  }

  Loop loop;
  std::unique_ptr<net::Client> client;
  std::string session;
};
using ParallelCallers = std::vector<std::unique_ptr<ParallelCaller>>;

double execs_per_second(const ParallelCallers& callers, std::size_t count, Seconds duration) {
  const Clock::time_point start = Clock::now();
  const Deadline end = start + std::chrono::duration_cast<Clock::duration>(duration);
  std::vector<std::future<unsigned>> running;
  for (std::size_t i = 0; i < count; ++i) {
    running.push_back(std::async(std::launch::async,
                                 [&caller = *callers[i], end] { return caller.exec_until(end); }));
  }
  unsigned done = 0;
  for (std::future<unsigned>& caller : running) done += caller.get();
  return done / Seconds(Clock::now() - start).count();
}

void measure_rates(Caller& caller, const Options& options, Report& report) {
  constexpr std::size_t kCounts[] = {1, 2, 4, 16};
  const Seconds slice(options.quick ? 0.1 : 0.5);
  ParallelCallers callers;
  for (std::size_t i = 0; i < 16; ++i) {
    callers.push_back(std::make_unique<ParallelCaller>(caller.daemon, i));
  }
  Samples ours[std::size(kCounts)];
  Samples spawned[std::size(kCounts)];
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    contenders.push_back({[&, i](bool counts) {
      const double rate = execs_per_second(callers, kCounts[i], slice);
      if (counts) ours[i].add(rate);
    }});
    contenders.push_back({[&, i](bool counts) {
      const double rate = spawns_per_second(kCounts[i], slice);
      if (counts) spawned[i].add(rate);
    }});
  }
  take_turns("rest throughput", contenders, options.quick ? 2 : 8);
  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    Figure figure{.measurement = "rest",
                  .name = str("REST: execs a second, ", kCounts[i],
                              kCounts[i] == 1 ? " session" : " sessions"),
                  .unit = Unit::per_second,
                  .ours = ours[i].summary()};
    figure.peer = Peer{str("posix_spawn, ", kCounts[i], kCounts[i] == 1 ? " thread" : " threads"),
                       spawned[i].summary()};
    if (kCounts[i] == 2) figure.goal = Goal{Goal::Of::ratio, Goal::Bound::at_least, 0.7};
    report.figures.push_back(figure);
  }
}

// Sessions that were used once and rest: their shells have been let go.
void measure_idle(const Options& options, Report& report) {
  const unsigned step = options.quick ? 5 : 25;
  const unsigned steps = options.quick ? 4 : 8;
  Caller caller(true);
  caller.exec("first");
  const auto rest = [&caller] { caller.wait_for("\"parked_shells\":0"); };
  rest();
  KernelMemory last = settled_kernel_memory();
  double guests_before = 0;
  for (const long long pid : descendants()) guests_before += resident_share(std::to_string(pid));
  Samples kernel;
  double hundred = 0;
  for (unsigned i = 0; i < steps; ++i) {
    for (unsigned made = 0; made < step; ++made) caller.exec(str("idle-", i, "-", made));
    rest();
    const KernelMemory now = settled_kernel_memory();
    kernel.add((now.total() - last.total()) / step);
    last = now;
    if ((i + 1) * step == (options.quick ? 20u : 100u))
      hundred = resident_share(caller.daemon.pid());
  }
  double guests = -guests_before;
  for (const long long pid : descendants()) guests += resident_share(std::to_string(pid));
  guests /= step * steps;  // the daemon's own growth is part of it
  const Summary k = kernel.summary();
  Figure figure{
      .measurement = "rest",
      .name = "REST: idle session, in all",
      .unit = Unit::kibibytes,
      .ours = {
          .n = k.n, .median = k.median + guests, .min = k.min + guests, .p90 = k.p90 + guests}};
  figure.goal = Goal{Goal::Of::ours, Goal::Bound::at_most, 512};
  report.figures.push_back(figure);
  figure.name = str("REST: the daemon with ", options.quick ? 20 : 100, " sessions");
  figure.ours = {.n = 1, .median = hundred, .min = hundred, .p90 = hundred};
  figure.goal = Goal{Goal::Of::ours, Goal::Bound::at_most, 25'000};
  report.figures.push_back(figure);
}

void measure_start(const Options& options, Report& report) {
  Samples ready;
  for (int i = 0; i < (options.quick ? 2 : 10); ++i) ready.add(DaemonProcess(true).ready_ms());
  Figure figure{.measurement = "rest", .name = "REST: daemon ready", .ours = ready.summary()};
  figure.goal = Goal{Goal::Of::ours, Goal::Bound::at_most, 100};
  report.figures.push_back(figure);
}

}  // namespace

void measure_rest(const Options& options, Report& report) {
  measure_idle(options, report);
  measure_start(options, report);
  Caller ready(true);
  Caller plain(false);
  measure_calls(ready, plain, options, report);
  measure_rates(ready, options, report);
  report.note(
      "REST: a native client that keeps its connection, and a daemon with and one without parked "
      "shells and pools; a call that is to find something ready begins when it is; the peer runs "
      "`sh -c true`, ours the same command in a login shell; for rates, ours has as many threads "
      "and "
      "connections as the peer has threads");
}

}  // namespace caisson::benchmarks
