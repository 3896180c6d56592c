#pragma once
#include <boost/json/object.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/daemon_client.h"

namespace caisson::cli {

// One command in a session of the daemon.
struct SessionExec {
  DaemonPlace daemon;
  std::string session;
  boost::json::object request;  // plan_session_exec(), with the command and its input
  bool json = false;            // print the result and nothing else
};

// Prints output as it comes and gives the exit code. When the program ends, or nobody reads its
// standard output, the connection is closed, and the daemon ends the command, unless it has a
// request id.
int run_in_session(SessionExec exec);

// All of standard input, as text: that is how it travels.
std::string read_input();

// What a session already has, for the fields that the request leaves open.
void fill_in(boost::json::object& request, const boost::json::object& session);

// One server-sent event.
struct ServerEvent {
  std::string name;
  std::string data;
  bool operator==(const ServerEvent&) const = default;
};

// Takes events apart as they arrive, however they are cut.
class EventReader {
 public:
  // Throws protocol_error when one event is larger than any the daemon sends.
  void add(std::string_view bytes);
  std::optional<ServerEvent> next();

 private:
  std::string bytes_;
  std::size_t begin_ = 0;  // of the first event that is not taken yet
};

}  // namespace caisson::cli
