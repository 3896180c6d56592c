#include "net/server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <list>
#include <unordered_map>
#include <unordered_set>

#include "async/event.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "net/connection.h"
#include "net/listener.h"
#include "net/peer_user.h"
#include "net/turned_away.h"

namespace caisson::net {

namespace asio = boost::asio;

namespace {

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
constexpr auto kLongestTick = std::chrono::milliseconds(500);
constexpr auto kOutOfDescriptorsPause = std::chrono::milliseconds(100);
constexpr int kAcceptsPerTurn = 64;

// Deadlines are kept to about a quarter.
Clock::duration tick_of(const ServerConfig& config) {
  const auto shortest = std::min({config.head_deadline, config.idle_deadline, config.body_deadline,
                                  config.write_deadline, config.linger_deadline});
  return std::clamp(shortest / 4, std::chrono::milliseconds(1), kLongestTick);
}

UniqueFd open_nothing() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

class Server::Implementation : public std::enable_shared_from_this<Implementation> {
 public:
  Implementation(asio::any_io_executor executor, const Router& router, ServerConfig config)
      : executor_(std::move(executor)),
        router_(router),
        config_(std::move(config)),
        tick_(tick_of(config_)),
        timer_(executor_),
        ended_(executor_),
        nothing_(open_nothing()),
        reserve_(open_nothing()),
        turned_away_(executor_, config_.linger_deadline) {
    if (!config_.budget) config_.budget = std::make_shared<Budget>();
    if (!config_.host.empty()) add_listener(Listener::tcp(config_.host, config_.port));
    for (const UnixSocket& socket : config_.unix_sockets) add_unix_socket(socket);
    if (doors_.empty()) {
      throw Error(ErrorCode::validation_error, "the server has neither an address nor a socket");
    }
  }

  std::uint16_t port() const { return doors_.front().listener.port(); }

  std::vector<std::string> sockets() const {
    std::vector<std::string> paths;
    for (const Door& door : doors_) {
      if (door.listener.is_unix()) paths.push_back(door.listener.path());
    }
    return paths;
  }

  ServerCounts counts() const {
    ServerCounts counts{.connections = connections_.size(),
                        .accepted = accepted_,
                        .refused = refused_,
                        .refusals = refusals_.counts(),
                        .buffers = config_.budget->status()};
    for (const auto& connection : connections_) {
      if (connection->busy()) ++counts.busy;
      if (connection->is_websocket()) ++counts.websockets;
    }
    return counts;
  }

  Task<void> run() {
    for (Door& door : doors_) spawn_accepting(door);
    if (stopping_) check_ended();
    co_await ended_.wait();
  }

  Task<void> stop(std::chrono::milliseconds grace);

 private:
  // A listener and what its connections share.
  struct Door {
    Listener listener;
    asio::posix::stream_descriptor readable;
    std::shared_ptr<ConnectionContext> context;
    std::optional<gid_t> group;  // see UnixSocket
  };

  void add_unix_socket(const UnixSocket& socket);
  void add_listener(Listener listener, std::optional<gid_t> group = {});
  void spawn_accepting(Door& door);
  Task<void> accept_clients(Door& door);
  bool full() const { return connections_.size() >= config_.max_connections; }
  Task<void> wait(Clock::duration time);
  Task<void> refuse_one(Door& door);
  void try_to_welcome(Door& door, UniqueFd fd);
  void welcome(Door& door, UniqueFd fd);
  void serve(const std::shared_ptr<Connection>& connection);
  void refuse(UniqueFd fd);
  Task<void> wait_for_place(Door& door);
  void set_crowded(bool crowded);
  void forget(const std::shared_ptr<Connection>& connection);
  void tick();
  void check_ended();

  asio::any_io_executor executor_;
  const Router& router_;
  ServerConfig config_;
  Clock::duration tick_;
  std::list<Door> doors_;
  asio::steady_timer timer_;
  Event ended_;
  UniqueFd nothing_;  // what the reserve is a copy of
  UniqueFd reserve_;  // a descriptor to have when there are no others
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::unordered_map<std::string, std::size_t> peers_;
  PeerUsers users_;
  Refusals refusals_;
  TurnedAway turned_away_;
  std::unique_ptr<Event> place_;  // somebody has left; null: nobody waits for that
  Deadline moved_{};              // when somebody has left, or the first had to wait
  std::size_t loops_ = 0;         // accepting or refusing
  std::uint64_t accepted_ = 0;
  std::uint64_t refused_ = 0;
  bool ticking_ = false;
  bool stopping_ = false;
};

void Server::Implementation::add_unix_socket(const UnixSocket& socket) {
  try {
    add_listener(Listener::unix_socket(socket.path, socket.group), socket.group);
  } catch (const Error& error) {
    if (!socket.dispensable) throw;
    log::warning("does without a socket", "socket", socket.path, "cause", error.what());
  }
}

void Server::Implementation::add_listener(Listener listener, std::optional<gid_t> group) {
  const bool is_unix = listener.is_unix();
  GuardConfig guard{.port = listener.port(),
                    .check_host = !is_unix,
                    .host_names = config_.host_names,
                    .origins = config_.origins,
                    .token = config_.token};
  auto context = std::make_shared<ConnectionContext>(ConnectionContext{
      .router = router_, .config = config_, .guard = std::move(guard), .refusals = refusals_});
  // The descriptor that is waited on is a second one, so that each has one owner.
  UniqueFd waited = duplicate(listener.fd(), "socket");
  asio::posix::stream_descriptor readable(executor_, waited.get());
  waited.release();
  doors_.push_back({std::move(listener), std::move(readable), std::move(context), group});
}

void Server::Implementation::spawn_accepting(Door& door) {
  ++loops_;
  asio::co_spawn(executor_, accept_clients(door),
                 [self = shared_from_this()](const std::exception_ptr&) {
                   --self->loops_;
                   self->check_ended();
                 });
}

Task<void> Server::Implementation::wait(Clock::duration time) {
  asio::steady_timer timer(executor_, time);
  co_await timer.async_wait(kAsTuple);
}

Task<void> Server::Implementation::accept_clients(Door& door) {
  while (!stopping_) {
    const auto [error] =
        co_await door.readable.async_wait(asio::posix::stream_descriptor::wait_read, kAsTuple);
    if (error || stopping_) break;
    if (full()) {
      co_await wait_for_place(door);
      continue;
    }
    for (int left = kAcceptsPerTurn; left > 0 && !full() && !stopping_; --left) {
      UniqueFd client = door.listener.accept();
      if (client) {
        try_to_welcome(door, std::move(client));
        continue;
      }
      const int cause = errno;
      if (cause == EINTR || cause == ECONNABORTED) continue;
      if (cause == EMFILE || cause == ENFILE) {
        co_await refuse_one(door);
      } else if (cause != EAGAIN) {
        log::warning("cannot accept a client", "cause", error_text(cause));
        co_await wait(kOutOfDescriptorsPause);
      }
      break;
    }
  }
}

// Clients wait in the listener's queue. When nobody leaves, those who are in it are refused, each
// with an answer.
Task<void> Server::Implementation::wait_for_place(Door& door) {
  if (!place_) {
    place_ = std::make_unique<Event>(executor_);
    moved_ = Clock::now();
    set_crowded(true);
  }
  const bool left = co_await place_->wait_until(moved_ + config_.queue_deadline);
  if (left || stopping_) co_return;
  while (!turned_away_.full()) {
    UniqueFd client = door.listener.accept();
    if (!client) co_return;
    ++accepted_;
    try {
      refuse(std::move(client));
    } catch (const std::exception& error) {
      log::warning("cannot refuse a client", "cause", error.what());
    }
  }
  co_await wait(kOutOfDescriptorsPause);
}

void Server::Implementation::set_crowded(bool crowded) {
  for (Door& door : doors_) door.context->crowded = crowded;
}

// Without a descriptor left, the one in reserve lets one client at a time hear that the server is
// busy. The loop waits meanwhile, so that it does not spin.
Task<void> Server::Implementation::refuse_one(Door& door) {
  reserve_.reset();
  UniqueFd client = door.listener.accept();
  if (client) {
    ++refused_;
    Task<UniqueFd> refusal = turned_away_.refuse(std::move(client));
    tick();
    client = co_await std::move(refusal);
    // Closed and taken over in one step, or somebody else would have the number by now.
    if (client && ::dup3(nothing_.get(), client.get(), O_CLOEXEC) >= 0) {
      reserve_ = std::move(client);
    }
  } else {
    co_await wait(kOutOfDescriptorsPause);
  }
  if (!reserve_) reserve_ = open_nothing();
}

// What one client costs too much must not end the loop for all.
void Server::Implementation::try_to_welcome(Door& door, UniqueFd fd) {
  try {
    welcome(door, std::move(fd));
  } catch (const std::exception& error) {
    ++refused_;
    log::warning("cannot serve a client", "cause", error.what());
  }
}

void Server::Implementation::welcome(Door& door, UniqueFd fd) {
  ++accepted_;
  Peer peer = users_.look_at(fd.get(), config_, door.group);
  const auto found = peers_.find(peer.name);
  const std::size_t of_peer = found == peers_.end() ? 0 : found->second;
  std::shared_ptr<Share> share = config_.budget->make_share();
  Charge head(share);
  const bool above = !is_local_peer(fd.get()) && of_peer >= config_.max_connections_per_peer;
  if (above || !head.resize(config_.max_head)) return refuse(std::move(fd));
  const auto connection =
      std::make_shared<Connection>(make_socket(executor_, std::move(fd)), door.context,
                                   std::move(peer), std::move(share), std::move(head));
  serve(connection);
}

void Server::Implementation::serve(const std::shared_ptr<Connection>& connection) {
  connections_.insert(connection);
  ++peers_[connection->peer().name];
  auto on_end = [self = shared_from_this(), connection](const std::exception_ptr&) {
    self->forget(connection);
  };
  asio::co_spawn(executor_, Connection::serve(connection),
                 asio::bind_cancellation_slot(connection->cancel_slot(), std::move(on_end)));
  tick();
}

void Server::Implementation::forget(const std::shared_ptr<Connection>& connection) {
  connection->close();
  const auto peer = peers_.find(connection->peer().name);
  if (--peer->second == 0) peers_.erase(peer);
  connections_.erase(connection);
  if (place_) {
    set_crowded(false);
    std::exchange(place_, nullptr)->set();
  }
  check_ended();
}

void Server::Implementation::refuse(UniqueFd fd) {
  ++refused_;
  if (turned_away_.full()) return TurnedAway::refuse_now(std::move(fd));
  Task<UniqueFd> refusal = turned_away_.refuse(std::move(fd));
  ++loops_;
  asio::co_spawn(executor_, std::move(refusal),
                 [self = shared_from_this()](const std::exception_ptr&, const UniqueFd&) {
                   --self->loops_;
                   self->check_ended();
                 });
  tick();
}

// One timer looks after all deadlines, and only while there are connections.
void Server::Implementation::tick() {
  if (ticking_ || (connections_.empty() && turned_away_.empty())) return;
  ticking_ = true;
  timer_.expires_after(tick_);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    self->ticking_ = false;
    if (error) return;
    const Deadline now = Clock::now();
    for (const auto& connection : self->connections_) connection->check_deadline(now);
    self->turned_away_.check(now);
    self->config_.budget->trim();
    self->tick();
  });
}

void Server::Implementation::check_ended() {
  if (!stopping_ || loops_ > 0 || !connections_.empty()) return;
  timer_.cancel();
  ended_.set();
}

Task<void> Server::Implementation::stop(std::chrono::milliseconds grace) {
  const Deadline deadline = Clock::now() + grace;
  const auto self = shared_from_this();
  stopping_ = true;
  for (Door& door : doors_) {
    door.context->stopping = true;
    door.readable.close();
    door.listener.close();
  }
  turned_away_.stop();
  if (place_) std::exchange(place_, nullptr)->set();
  for (const auto& connection : connections_) connection->stop();
  check_ended();
  const bool in_time = co_await ended_.wait_until(deadline);
  if (in_time) co_return;
  log::warning("requests cancelled", "count", connections_.size());
  const auto left = connections_;  // cancelling may end some at once
  for (const auto& connection : left) connection->cancel();
  co_await ended_.wait();
}

Server::Server(asio::any_io_executor executor, const Router& router, ServerConfig config)
    : implementation_(
          std::make_shared<Implementation>(std::move(executor), router, std::move(config))) {}

Server::~Server() = default;

std::uint16_t Server::port() const {
  return implementation_->port();
}

std::vector<std::string> Server::sockets() const {
  return implementation_->sockets();
}

ServerCounts Server::counts() const {
  return implementation_->counts();
}

Task<void> Server::run() {
  return implementation_->run();
}

Task<void> Server::stop(std::chrono::milliseconds grace) {
  return implementation_->stop(grace);
}

}  // namespace caisson::net
