#include <string>
#include <utility>

#include "api/api.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "base/text.h"

namespace caisson::api {

namespace {

class Page {
 public:
  void add(std::string_view name, std::string_view type, std::string_view help,
           std::uint64_t value) {
    text_ += str("# HELP caisson_", name, " ", help, "\n# TYPE caisson_", name, " ", type,
                 "\ncaisson_", name, " ", value, "\n");
  }
  void add_refusals(const net::Refusals::Counts& counts) {
    text_ +=
        "# HELP caisson_requests_refused_total Requests refused for who asked, for what or how "
        "often.\n# TYPE caisson_requests_refused_total counter\n";
    for (std::size_t i = 0; i < counts.size(); ++i) {
      text_ += str("caisson_requests_refused_total{status=\"", net::Refusals::kStatuses[i], "\"} ",
                   counts[i], "\n");
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Pages of memory this process has in RAM.
std::uint64_t resident_bytes() {
  std::string statm;
  try {
    statm = find_file_content("/proc/self/statm").value_or("");
  } catch (const SystemError&) {
    return 0;  // no descriptor left to ask with
  }
  const std::vector<std::string_view> fields = split(statm, ' ');
  const auto pages = fields.size() > 1 ? parse_integer(fields[1]) : std::nullopt;
  return static_cast<std::uint64_t>(pages.value_or(0)) * 4096;
}

std::string metrics_page(const Services& services) {
  const session::RegistryStatus sessions = services.sessions.status();
  const net::ServerCounts connections = services.connections();
  Page page;
  page.add("sessions", "gauge", "Sessions that have a box.", sessions.sessions);
  page.add("sessions_returning", "gauge", "Sessions of the daemon before that are not back yet.",
           sessions.returning);
  page.add("sessions_being_made", "gauge", "Boxes that are being made for a session.",
           sessions.being_made);
  page.add("sessions_being_closed", "gauge", "Sessions whose box is being ended.",
           sessions.being_closed);
  page.add("sessions_made_total", "counter", "Sessions made since the start.", sessions.created);
  page.add("sessions_expired_total", "counter", "Sessions ended because nobody used them.",
           sessions.expired);
  page.add("execs_total", "counter", "Commands that were run to their end.", sessions.execs);
  page.add("exec_timeouts_total", "counter", "Commands that were ended at their timeout.",
           sessions.timeouts);
  page.add("exec_oom_total", "counter", "Commands during which the box ran out of memory.",
           sessions.ooms);
  page.add("processes_running", "gauge", "Managed processes that have not ended.",
           services.processes.running());
  page.add("processes_ended", "gauge", "Managed processes that have ended and are still known.",
           services.processes.size() - services.processes.running());
  page.add("parked_shells", "gauge", "Shells that wait for a command.", sessions.parked_shells);
  page.add("pooled_boxes", "gauge", "Boxes that wait for a session.", sessions.pooled_boxes);
  page.add("pool_hits_total", "counter", "Sessions that found a box ready.", sessions.pool_hits);
  page.add("pool_misses_total", "counter", "Sessions whose box was made for them.",
           sessions.pool_misses);
  page.add("connections", "gauge", "Open connections.", connections.connections);
  page.add("connections_busy", "gauge", "Connections with a request at work.", connections.busy);
  page.add("connections_total", "counter", "Connections accepted since the start.",
           connections.accepted);
  page.add("connections_refused_total", "counter", "Connections refused for want of room.",
           connections.refused);
  page.add_refusals(connections.refusals);
  const net::BudgetStatus& buffers = connections.buffers;
  page.add("buffer_limit_bytes", "gauge", "Memory that may be kept for all peers together.",
           buffers.limit);
  page.add("buffered_incoming_bytes", "gauge", "Kept of what peers have sent.", buffers.incoming);
  page.add("buffered_outgoing_bytes", "gauge", "Kept of what peers have not taken.",
           buffers.outgoing);
  page.add("buffered_peak_bytes", "gauge", "The most of both together since the start.",
           buffers.peak);
  page.add("buffers_refused_total", "counter", "Messages and answers that found no room.",
           buffers.refused);
  page.add("slow_readers_total", "counter", "Connections ended because others needed the room.",
           buffers.evicted);
  page.add("hosts", "gauge", "LangBot hosts that are connected.", services.hosts.connections);
  page.add("host_requests_total", "counter", "Requests of LangBot hosts.", services.hosts.requests);
  page.add("host_failures_total", "counter", "Of these, those answered with an error.",
           services.hosts.failures);
  page.add("resident_memory_bytes", "gauge", "Memory of the daemon itself.", resident_bytes());
  return page.take();
}

}  // namespace

void add_metrics_route(net::Router& router, const Services& services) {
  router.add("GET", "/metrics", [services](net::Exchange& exchange) -> Task<void> {
    net::Response response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = metrics_page(services);
    co_await exchange.reply(std::move(response));
  });
}

}  // namespace caisson::api
