#include "daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "samples.h"

namespace caisson::benchmarks {

namespace {

constexpr auto kStartDeadline = std::chrono::seconds(20);

// The port, from the line with which the daemon says that it listens.
std::string port_in(const std::string& log) {
  const std::size_t line = log.find(" listening ");
  const std::size_t port = log.find(" port=", line == std::string::npos ? log.size() : line);
  if (port == std::string::npos) return {};
  const std::size_t end = log.find(' ', port + 6);
  return end == std::string::npos ? "" : log.substr(port + 6, end - port - 6);
}

std::string wait_for_port(int log) {
  const Deadline deadline = Clock::now() + kStartDeadline;
  std::string text;
  while (Clock::now() < deadline) {
    if (std::string port = port_in(text); !port.empty()) return port;
    pollfd readable{log, POLLIN, 0};
    if (::poll(&readable, 1, 100) <= 0) continue;
    char buffer[4096];
    const ssize_t got = ::read(log, buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  throw Error(ErrorCode::internal_error, str("the daemon does not start: ", text));
}

}  // namespace

DaemonProcess::DaemonProcess(bool pools) {
  const std::filesystem::path config = directory_.path() / "caisson.yaml";
  replace_file(config,
               str("box: {limits: {max_sessions: 5000}, local: {allowed_mount_roots: [",
                   shown_.path().native(), "]}}\ncaisson:\n  pools: ", pools ? "true" : "false",
                   "\n  shell_idle_sec: 1\n  session_ttl_sec: 3600\n"));
  start();
}

void DaemonProcess::start() {
  const std::filesystem::path config = directory_.path() / "caisson.yaml";
  auto [read_end, write_end] = make_pipe();
  const UniqueFd null = open_file("/dev/null", O_RDWR);
  Command command;
  command.argv = {CAISSON_PROGRAM, "serve",
                  "--port",        "0",
                  "--state",       (directory_.path() / "state").native(),
                  "--config",      config.native()};
  command.env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
  command.fds = {{null.get(), 0}, {null.get(), 1}, {write_end.get(), 2}};
  const Clock::time_point begin = Clock::now();
  process_ = spawn(command);
  write_end.reset();
  log_ = std::move(read_end);
  address_ = str("http://127.0.0.1:", wait_for_port(log_.get()));
  Loop loop;
  const std::unique_ptr<net::Client> client = connect(loop);
  loop.await(ask(*client, "GET", "/healthz"));
  ready_ms_ = milliseconds_since(begin);
}

void DaemonProcess::kill_and_start() {
  process_.kill(SIGKILL);
  process_.wait();
  start();
}

DaemonProcess::~DaemonProcess() {
  process_.kill(SIGTERM);
  char buffer[4096];
  while (::read(log_.get(), buffer, sizeof buffer) > 0) {  // until it has ended
  }
  process_.wait();
}

std::unique_ptr<net::Client> DaemonProcess::connect(Loop& loop) const {
  net::ClientConfig config;
  config.address = address_;
  return std::make_unique<net::Client>(loop.executor(), std::move(config));
}

Task<std::string> ask(net::Client& client, std::string method, std::string target,
                      std::string body) {
  net::ClientRequest request;
  request.method = std::move(method);
  request.target = target;
  request.body = std::move(body);
  net::Response response = co_await client.request(std::move(request));
  if (response.status >= 300) {
    throw Error(ErrorCode::internal_error, str(target, ": ", response.status, " ", response.body));
  }
  co_return std::move(response.body);
}

Task<void> exec_in(net::Client& client, std::string session) {
  const std::string answer = co_await ask(client, "POST", str("/v1/sessions/", session, "/exec"),
                                          R"({"cmd":"true","timeout_sec":60})");
  if (answer.find("\"exit_code\":0,") == std::string::npos) {
    throw Error(ErrorCode::internal_error, answer);
  }
}

}  // namespace caisson::benchmarks
