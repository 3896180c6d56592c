#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "base/error.h"
#include "cli/settings.h"
#include "net/client.h"

namespace CLI {
class App;
}

namespace caisson::cli {

// What the command line says about the daemon to talk to.
struct DaemonOptions {
  std::optional<std::string> url;
  std::optional<std::string> state;
};
void add_daemon_options(CLI::App& app, DaemonOptions& options);  // --url and --state
void add_url(CLI::App& app, std::optional<std::string>& target);

// Where the daemon is and what it is shown.
struct DaemonPlace {
  std::string address;
  std::string token;        // may be empty
  std::string token_note;   // what to do when the daemon does not accept it
  std::string alternative;  // what a caller can do without a daemon, for the sentence
};

// Whether root or this user listens on a unix socket and lets us in.
using SocketProbe = std::function<bool(const std::string& path)>;
bool answers_at(const std::string& path);

// The daemon that is meant: the one at --url, else CAISSON_URL; else the one of the state directory
// in --state, else CAISSON_STATE. When nothing is said, the first that listens of: the daemon of
// the usual state directory, the one at this user's common socket, root's; and if none does,
// whoever is at http://127.0.0.1:5410.
//
// It is shown CAISSON_TOKEN. The token of a state directory is shown only at a port of this host
// that was said: sockets need none, and anybody may be at the usual port while no daemon is. One
// that cannot be read is as good as none: a daemon knows its users on this host.
DaemonPlace find_daemon(const DaemonOptions& options, const Environment& environment, bool is_root,
                        const SocketProbe& answers = answers_at);
DaemonPlace find_daemon(const DaemonOptions& options);  // as this process's environment says

// Where a daemon of this user listens unless it is told otherwise, and another one has not come
// first.
std::filesystem::path common_socket();

// The name as the daemon knows it: without white space around it. Throws validation_error for a
// name that no session can have.
std::string session_name(std::string_view text);

// "/v1/sessions/NAME" and what is below it. Names and paths may contain anything.
std::string session_target(std::string_view name, std::string_view below = "");
std::string path_target(std::string_view name, std::string_view below, std::string_view path);

// What {"error": {"code": ..., "message": ...}} says; nullopt for everything else.
std::optional<Error> find_error(const boost::json::value& answer);

// A client of one daemon. Answers that are errors are thrown as such, with the daemon's own code
// and sentence. One request at a time.
class DaemonClient {
 public:
  DaemonClient(boost::asio::any_io_executor executor, DaemonPlace place);

  Task<boost::json::value> call(std::string method, std::string target, std::string body = "");
  // nullopt when the thing is not there.
  Task<std::optional<boost::json::value>> find(std::string target);

  // The head of a good answer, whose body then comes in pieces; nullopt at the end.
  Task<net::Response> open(net::ClientRequest request);
  Task<std::optional<std::string>> read_some() { return client_.read_some(); }

  // The websocket has a connection of its own.
  Task<net::WebSocket> open_websocket(net::WebSocketRequest request);

 private:
  template <typename Answer>
  Task<Answer> reach(Task<Answer> answer);
  Error error_of(const net::Response& response) const;
  boost::json::value parse(std::string_view body) const;

  DaemonPlace place_;
  net::Client client_;
};

// Runs `work` with a client on an event loop of its own and gives its exit code.
using DaemonWork = std::function<Task<int>(DaemonClient&)>;
int run_with_daemon(DaemonPlace place, const DaemonWork& work);
int run_with_daemon(const DaemonOptions& options, const DaemonWork& work);

// SIGINT, SIGTERM and SIGHUP, unless they are ignored, end the program with 128 + N: at once, and
// also while it waits for somebody to take its output. The daemon sees the connection close.
void exit_on_signals();

}  // namespace caisson::cli
