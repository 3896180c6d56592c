#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "base/unique_fd.h"
#include "net/router.h"
#include "net/server.h"

namespace caisson::net {

// A server on a free port of its own, with its event loop on a thread of its own.
class TestServer {
 public:
  explicit TestServer(const std::function<void(Router&)>& fill, ServerConfig config = {}) {
    fill(router_);
    if (config.host.empty() && config.unix_sockets.empty()) config.host = "127.0.0.1";
    server_ = std::make_unique<Server>(io_.get_executor(), router_, std::move(config));
    ended_ = boost::asio::co_spawn(io_, server_->run(), boost::asio::use_future);
    thread_ = std::thread([this] { io_.run(); });
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  ~TestServer() {
    stop(std::chrono::milliseconds(0)).get();
    ended_.get();
    work_.reset();
    thread_.join();
  }

  std::uint16_t port() const { return server_->port(); }
  std::future<void> stop(std::chrono::milliseconds grace) {
    return boost::asio::co_spawn(io_, server_->stop(grace), boost::asio::use_future);
  }
  ServerCounts counts() {
    auto ask = [](Server& server) -> Task<ServerCounts> { co_return server.counts(); };
    return boost::asio::co_spawn(io_, ask(*server_), boost::asio::use_future).get();
  }
  boost::asio::io_context& io() { return io_; }

 private:
  boost::asio::io_context io_;
  // Questions can be asked after the server has stopped.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  Router router_;
  std::unique_ptr<Server> server_;
  std::future<void> ended_;
  std::thread thread_;
};

// A client that sends exactly the bytes it is given. Waits of more than ten seconds fail the test.
class RawClient {
 public:
  RawClient() : RawClient(AF_INET) {}  // not connected yet
  explicit RawClient(std::uint16_t port) : RawClient() { connect(port); }
  RawClient(const char* host, std::uint16_t port) : RawClient() {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port)};
    ::inet_pton(AF_INET, host, &address.sin_addr);
    connect(&address, sizeof address);
  }
  explicit RawClient(const std::string& unix_path) : RawClient(AF_UNIX) {
    sockaddr_un address{.sun_family = AF_UNIX};
    std::memcpy(address.sun_path, unix_path.c_str(), unix_path.size() + 1);
    connect(&address, sizeof address);
  }

  void connect(std::uint16_t port) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(&address, sizeof address);
  }

  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  void shutdown_write() { ::shutdown(fd_.get(), SHUT_WR); }

  // False when the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  bool readable_within(int milliseconds) {
    pollfd poll_fd{.fd = fd_.get(), .events = POLLIN};
    return ::poll(&poll_fd, 1, milliseconds) == 1;
  }

  // One answer with a Content-Length, head and body; what has come when the server closes.
  std::string read_answer() {
    std::size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return take(buffer_.size());
    }
    const std::size_t at = buffer_.find("Content-Length: ");
    std::size_t length = 0;
    if (at < end) length = std::stoul(buffer_.substr(at + 16));
    while (buffer_.size() < end + 4 + length) {
      if (!read_more()) return take(buffer_.size());
    }
    return take(end + 4 + length);
  }

  std::string ask(std::string_view bytes) {
    send(bytes);
    return read_answer();
  }

  // Up to where `text` ends.
  std::string read_until(std::string_view text) {
    std::size_t at = std::string::npos;
    while ((at = buffer_.find(text)) == std::string::npos) {
      if (!read_more()) return take(buffer_.size());
    }
    return take(at + text.size());
  }

  // That many bytes; what has come when the server closes.
  std::string read_bytes(std::size_t size) {
    while (buffer_.size() < size && read_more()) {
    }
    return take(std::min(size, buffer_.size()));
  }

  // Everything until the server closes.
  std::string read_to_end() {
    while (read_more()) {
    }
    return take(buffer_.size());
  }

  // Whether the server closes without another byte.
  bool closed() { return read_to_end().empty(); }

 private:
  explicit RawClient(int family)
      : fd_(check_syscall("socket", ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0))) {
    const timeval patience{.tv_sec = 60};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }

  void connect(const void* address, socklen_t size) {
    check_syscall("connect", ::connect(fd_.get(), static_cast<const sockaddr*>(address), size));
  }

  bool read_more() {
    char bytes[4096];
    const ssize_t count = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (count < 0 && errno == EAGAIN) ADD_FAILURE() << "the server neither answers nor closes";
    if (count <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  std::string take(std::size_t size) {
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return taken;
  }

  UniqueFd fd_;
  std::string buffer_;
};

// Polls until it is so: for what another thread does soon, and for nothing that has to be timed.
template <typename Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Runs one coroutine to its end on a loop of its own.
template <typename T>
T run(boost::asio::io_context& io, Task<T> task) {
  std::future<T> result = boost::asio::co_spawn(io, std::move(task), boost::asio::use_future);
  io.restart();
  io.run();
  return result.get();
}

inline int status_in(const std::string& answer) {
  return answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0;
}

inline std::string body_in(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace caisson::net
