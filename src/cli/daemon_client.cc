#include "cli/daemon_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

#include "backend/native/owner.h"
#include "base/str.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "base/utf8.h"
#include "cli/option.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "daemon/listen.h"
#include "daemon/token.h"
#include "model/config.h"
#include "net/address.h"
#include "net/target.h"

namespace caisson::cli {

namespace {

namespace asio = boost::asio;
namespace json = boost::json;

constexpr std::string_view kDefaultAddress = "http://127.0.0.1:5410";
constexpr const char* kRootsSocket = "/run/caisson/caisson.sock";
constexpr std::size_t kMaxErrorBody = 1u << 20;

bool is_socket(const std::string& address) {
  return !net::parse_address(address).unix_path.empty();
}

bool is_on_this_host(const std::string& address) {
  return model::is_loopback(net::parse_address(address).host);
}

std::string unix_address(const std::filesystem::path& path) {
  return str("unix:", path.native());
}

bool fits_a_socket(const std::filesystem::path& path) {
  return path.native().size() < sizeof(sockaddr_un::sun_path);
}

// The socket of the daemon that has the state directory.
std::filesystem::path state_socket(const DaemonOptions& options, const Environment& environment,
                                   bool is_root) {
  return state_directory(options.state, environment, is_root) / daemon::kStateSocket;
}

// Where a daemon is when neither an option nor a variable says its address.
std::string find_address(const DaemonOptions& options, const Environment& environment, bool is_root,
                         const SocketProbe& answers) {
  const bool said = options.state || !environment("CAISSON_STATE").value_or("").empty();
  std::vector<std::filesystem::path> sockets;
  try {
    sockets.push_back(state_socket(options, environment, is_root));
  } catch (const Error&) {
    if (said) throw;  // and else there is no home that could hold one
  }
  if (said && fits_a_socket(sockets.front())) return unix_address(sockets.front());
  if (!said) {
    sockets.push_back(common_socket());
    sockets.emplace_back(kRootsSocket);
  }
  for (const std::filesystem::path& socket : sockets) {
    if (fits_a_socket(socket) && answers(socket.native())) return unix_address(socket);
  }
  return std::string(kDefaultAddress);
}

void find_token(DaemonPlace& place, const DaemonOptions& options, const Environment& environment,
                bool is_root, bool said) {
  constexpr std::string_view kSay =
      "name its state directory with --state, or put its token into "
      "CAISSON_TOKEN";
  place.token = environment("CAISSON_TOKEN").value_or("");
  if (!place.token.empty()) {
    place.token_note = "the one in CAISSON_TOKEN is not this daemon's";
    return;
  }
  if (is_socket(place.address)) {
    place.token_note = "its socket is open to its user, to root and to their group only";
    return;
  }
  if (!is_on_this_host(place.address)) {
    place.token_note = "put the daemon's token into CAISSON_TOKEN";
    return;
  }
  if (!said) {
    place.token_note = "say with --url or --state which daemon is meant";
    return;
  }
  const std::filesystem::path state = state_directory(options.state, environment, is_root);
  const std::string file = (state / "token").native();
  try {
    place.token = daemon::find_token(state).value_or("");
    place.token_note = str(place.token.empty() ? "there is none in " : "this is not the one in ",
                           file, ": ", kSay);
  } catch (const Error& error) {
    place.token_note = str(error.what(), "; ", kSay);
  }
}

// "Connection refused" of the client's whole sentence.
std::string cause_of(const Error& error, const std::string& address) {
  std::string_view sentence = error.what();
  const std::string prefix = str("cannot connect to ", address, ": ");
  if (sentence.starts_with(prefix)) sentence.remove_prefix(prefix.size());
  return std::string(sentence.substr(0, sentence.find(';')));
}

bool is_absence(ErrorCode code) {
  return code == ErrorCode::session_not_found || code == ErrorCode::not_found;
}

extern "C" void exit_for_signal(int number) {
  ::_exit(kExitSignalBase + number);
}

}  // namespace

void add_url(CLI::App& app, std::optional<std::string>& target) {
  add_text(app, "--url", target, "URL",
           "The daemon: http://HOST:PORT or unix:/PATH (default: $CAISSON_URL, else the socket "
           "of the state directory, else of this user, else of root, else "
           "http://127.0.0.1:5410)");
}

void add_daemon_options(CLI::App& app, DaemonOptions& options) {
  add_url(app, options.url);
  add_text(app, "--state", options.state, "DIR",
           "The daemon's state directory, where its socket is, and its token unless "
           "$CAISSON_TOKEN holds it (default: as of serve)");
}

DaemonPlace find_daemon(const DaemonOptions& options, const Environment& environment, bool is_root,
                        const SocketProbe& answers) {
  DaemonPlace place;
  const std::string variable = environment("CAISSON_URL").value_or("");
  const bool said = options.url || !variable.empty();
  place.address = options.url         ? *options.url
                  : !variable.empty() ? variable
                                      : find_address(options, environment, is_root, answers);
  try {
    net::parse_address(place.address);
  } catch (const Error& error) {
    throw Error(error.code(), str(options.url ? "--url: " : "CAISSON_URL: ", error.what()));
  }
  find_token(place, options, environment, is_root, said);
  return place;
}

bool answers_at(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX};
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (!socket) return false;
  // One whose queue is full listens as well; the next step waits for it.
  if (::connect(socket.get(), raw, sizeof address) != 0) return errno == EAGAIN;
  // In a public place somebody else may have been first.
  ucred listener{};
  socklen_t size = sizeof listener;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) == 0 &&
         (listener.uid == 0 || listener.uid == ::geteuid());
}

std::filesystem::path common_socket() {
  return backend::native::runtime_directory() / "caisson.sock";
}

DaemonPlace find_daemon(const DaemonOptions& options) {
  return find_daemon(options, process_environment(), ::geteuid() == 0);
}

std::string session_name(std::string_view text) {
  std::string name(trim(text));
  const auto refuse = [&](std::string_view fault) {
    throw Error(ErrorCode::validation_error, str("session \"", printable(text), "\": ", fault));
  };
  if (name.empty()) refuse("the name must not be empty");
  if (name == "." || name == "..") refuse("this cannot be a name");
  if (!is_utf8(name)) refuse("the name must be UTF-8");
  return name;
}

std::string session_target(std::string_view name, std::string_view below) {
  return str("/v1/sessions/", net::encode_segment(name), below);
}

std::string path_target(std::string_view name, std::string_view below, std::string_view path) {
  return str(session_target(name, below), "?path=", net::encode_segment(path));
}

std::optional<Error> find_error(const json::value& answer) {
  const json::object* object = answer.if_object();
  const json::value* error = object != nullptr ? object->if_contains("error") : nullptr;
  object = error != nullptr ? error->if_object() : nullptr;
  if (object == nullptr) return std::nullopt;
  const json::value* code = object->if_contains("code");
  const json::value* message = object->if_contains("message");
  if (code == nullptr || !code->is_string() || message == nullptr || !message->is_string()) {
    return std::nullopt;
  }
  return Error(error_code_of(code->get_string()), std::string(message->get_string()));
}

DaemonClient::DaemonClient(asio::any_io_executor executor, DaemonPlace place)
    : place_(std::move(place)),
      client_(std::move(executor), {.address = place_.address, .token = place_.token}) {}

json::value DaemonClient::parse(std::string_view body) const {
  json::error_code error;
  json::value value = json::parse(body, error);
  if (!error) return value;
  throw Error(ErrorCode::protocol_error, str("the answer of ", place_.address, " is not JSON: ",
                                             error.message(), "; is it a Caisson daemon?"));
}

// Says in our words that nobody is there.
template <typename Answer>
Task<Answer> DaemonClient::reach(Task<Answer> answer) {
  try {
    co_return co_await std::move(answer);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::backend_unavailable) throw;
    throw Error(error.code(),
                str("no daemon at ", place_.address, " (", cause_of(error, place_.address),
                    "); start one with `caisson serve`", place_.alternative));
  }
}

// What the daemon says went wrong.
Error DaemonClient::error_of(const net::Response& response) const {
  json::error_code fault;
  const json::value answer = json::parse(response.body, fault);
  const std::optional<Error> error = fault ? std::nullopt : find_error(answer);
  if (!error) {
    return {ErrorCode::protocol_error,
            str(place_.address, " answered with status ", response.status,
                " and no error of a Caisson daemon; is it one?")};
  }
  if (error->code() != ErrorCode::unauthorized) return *error;
  return {error->code(), str(error->what(), "; ", place_.token_note)};
}

Task<net::Response> DaemonClient::open(net::ClientRequest request) {
  net::Response response = co_await reach(client_.open(std::move(request)));
  if (response.status / 100 == 2) co_return response;
  while (response.body.size() <= kMaxErrorBody) {
    const std::optional<std::string> piece = co_await client_.read_some();
    if (!piece) break;
    response.body += *piece;
  }
  throw error_of(response);
}

Task<net::WebSocket> DaemonClient::open_websocket(net::WebSocketRequest request) {
  net::WebSocketAnswer answer = co_await reach(client_.open_websocket(std::move(request)));
  if (!answer.socket) throw error_of(answer.response);
  co_return std::move(*answer.socket);
}

Task<json::value> DaemonClient::call(std::string method, std::string target, std::string body) {
  net::ClientRequest request{
      .method = std::move(method), .target = std::move(target), .body = std::move(body)};
  const net::Response response = co_await reach(client_.request(std::move(request)));
  if (response.status / 100 != 2) throw error_of(response);
  co_return parse(response.body);
}

Task<std::optional<json::value>> DaemonClient::find(std::string target) {
  net::ClientRequest request{.target = std::move(target)};
  const net::Response response = co_await reach(client_.request(std::move(request)));
  if (response.status / 100 == 2) co_return parse(response.body);
  const Error error = error_of(response);
  if (is_absence(error.code())) co_return std::nullopt;
  throw error;
}

int run_with_daemon(DaemonPlace place, const DaemonWork& work) {
  asio::io_context io(1);
  DaemonClient client(io.get_executor(), std::move(place));
  std::exception_ptr failure;
  int code = kExitFailure;
  asio::co_spawn(io, work(client), [&](const std::exception_ptr& error, int result) {
    failure = error;
    code = result;
    io.stop();
  });
  io.run();
  if (failure) std::rethrow_exception(failure);
  return code;
}

int run_with_daemon(const DaemonOptions& options, const DaemonWork& work) {
  return run_with_daemon(find_daemon(options), work);
}

void exit_on_signals() {
  struct sigaction action {};
  action.sa_handler = exit_for_signal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (is_ignored(number)) continue;
    check_syscall("sigaction", ::sigaction(number, &action, nullptr));
  }
}

}  // namespace caisson::cli
