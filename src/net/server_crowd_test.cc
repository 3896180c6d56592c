#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <deque>

#include "async/event.h"
#include "base/str.h"
#include "net/server_for_test.h"

// More clients than places.
namespace caisson::net {
namespace {

using std::chrono::milliseconds;

class ServerCrowdTest : public testing::Test {
 protected:
  void start(ServerConfig config) {
    server_ =
        std::make_unique<TestServer>([this](Router& router) { fill(router); }, std::move(config));
  }

  void fill(Router& router) {
    router.add("GET", "/hello", [](Exchange& exchange) -> Task<void> {
      Response response{.body = "\"hello\""};
      co_await exchange.reply(std::move(response));
    });
    router.add("GET", "/wait", [this](Exchange& exchange) -> Task<void> {
      if (!release_) release_ = std::make_unique<Event>(co_await boost::asio::this_coro::executor);
      ++waiting_;
      co_await release_->wait();
      Response response{.body = "\"waited\""};
      co_await exchange.reply(std::move(response));
    });
  }

  std::string head(std::string_view line, std::string_view headers = "") {
    return str(line, " HTTP/1.1\r\nHost: localhost:", server_->port(), "\r\n", headers, "\r\n");
  }
  void release() {
    boost::asio::post(server_->io(), [this] { release_->set(); });
  }

  std::atomic<int> waiting_ = 0;
  std::unique_ptr<Event> release_;  // touched on the server's thread only
  std::unique_ptr<TestServer> server_;
};

TEST_F(ServerCrowdTest, TakesThisHostForMoreThanOnePeer) {
  start({.max_connections_per_peer = 1});
  RawClient first(server_->port());
  EXPECT_EQ(status_in(first.ask(head("GET /hello"))), 200);
  RawClient second(server_->port());
  EXPECT_EQ(status_in(second.ask(head("GET /hello"))), 200);
}

TEST_F(ServerCrowdTest, LetsClientsWaitForAPlace) {
  start({.max_connections = 2, .queue_deadline = std::chrono::minutes(10)});
  std::deque<RawClient> clients;
  for (int i = 0; i < 2; ++i) clients.emplace_back(server_->port()).send(head("GET /wait"));
  ASSERT_TRUE(eventually([&] { return waiting_ == 2; }));
  for (int i = 0; i < 20; ++i) clients.emplace_back(server_->port()).send(head("GET /hello"));
  release();
  for (RawClient& client : clients) {
    EXPECT_EQ(status_in(client.read_answer()), 200);
    client.close();
  }
  EXPECT_EQ(server_->counts().refused, 0u);
}

TEST_F(ServerCrowdTest, ClosesConnectionsThatAreOnlyKeptForLaterWhenOthersWait) {
  start({.max_connections = 1, .queue_deadline = std::chrono::minutes(10)});
  RawClient idle(server_->port());
  EXPECT_EQ(status_in(idle.ask(head("GET /hello"))), 200);
  RawClient second(server_->port());
  EXPECT_EQ(status_in(second.ask(head("GET /hello"))), 200);
  EXPECT_TRUE(idle.closed());
}

TEST_F(ServerCrowdTest, EndsConnectionsWithTheirAnswerWhileOthersWait) {
  start({.max_connections = 1, .queue_deadline = milliseconds(1)});
  RawClient first(server_->port());
  EXPECT_EQ(status_in(first.ask(head("GET /hello"))), 200);
  EXPECT_EQ(status_in(RawClient(server_->port()).ask(head("GET /hello"))), 503);
  EXPECT_TRUE(contains(first.ask(head("GET /hello")), "Connection: close"));
}

TEST_F(ServerCrowdTest, RefusesEachOfManyWithAWholeAnswerAndNoReset) {
  start({.max_connections = 1, .queue_deadline = milliseconds(1)});
  RawClient first(server_->port());
  first.send(head("GET /wait"));
  ASSERT_TRUE(eventually([&] { return waiting_ == 1; }));
  constexpr std::size_t kClients = 300;
  const std::string request =
      head("GET /hello", "Content-Length: 100000\r\n") + std::string(100'000, 'x');
  std::deque<RawClient> clients;
  for (std::size_t i = 0; i < kClients; ++i) clients.emplace_back(server_->port());
  for (RawClient& client : clients) {
    EXPECT_TRUE(client.send(request));
    const std::string answer = client.read_answer();
    EXPECT_EQ(status_in(answer), 503);
    EXPECT_TRUE(contains(answer, "\r\nRetry-After: 1\r\n")) << answer;
    EXPECT_TRUE(contains(answer, "caisson.max_connections")) << answer;
    EXPECT_TRUE(client.closed());
    client.close();
  }
  EXPECT_EQ(server_->counts().refused, kClients);
  release();
  EXPECT_EQ(status_in(first.read_answer()), 200);
}

// Gives this thread a network of its own with one address that is not loopback's.
bool enter_own_network(const char* address) {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  const UniqueFd socket(check_syscall("socket", ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
  ifreq up{};
  std::strcpy(up.ifr_name, "lo");
  up.ifr_flags = IFF_UP;
  check_syscall("lo", ::ioctl(socket.get(), SIOCSIFFLAGS, &up));
  ifreq named{};
  std::strcpy(named.ifr_name, "lo:1");
  auto& four = reinterpret_cast<sockaddr_in&>(named.ifr_addr);
  four.sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &four.sin_addr);
  check_syscall(address, ::ioctl(socket.get(), SIOCSIFADDR, &named));
  return true;
}

TEST_F(ServerCrowdTest, AnswersBusyAboveTheMaximumOfOneAddressOfAnotherHost) {
  constexpr const char* kAddress = "192.0.2.1";
  bool entered = false;
  std::thread([&] {
    entered = enter_own_network(kAddress);
    if (!entered) return;
    start({.host = "0.0.0.0",
           .without_token = WithoutToken::everybody,
           .max_connections_per_peer = 1});
    RawClient first(kAddress, server_->port());
    EXPECT_EQ(status_in(first.ask(head("GET /hello"))), 200);
    RawClient second(kAddress, server_->port());
    EXPECT_EQ(status_in(second.ask(head("GET /hello"))), 503);
    RawClient local(server_->port());
    EXPECT_EQ(status_in(local.ask(head("GET /hello"))), 200);
  }).join();
  if (!entered) GTEST_SKIP() << "needs root for a network of its own";
}

}  // namespace
}  // namespace caisson::net
