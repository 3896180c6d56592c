#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "async/event.h"
#include "base/str.h"
#include "net/server_for_test.h"

namespace caisson::net {
namespace {

using std::chrono::milliseconds;

// Handlers that wait, and a way to look at them and to let them go.
struct Waiting {
  std::atomic<int> begun = 0;
  std::atomic<int> gone = 0;
  std::atomic<int> failed = 0;
  std::unique_ptr<Event> release;  // touched on the server's thread only

  void fill(Router& router) {
    router.add("GET", "/hello", [](Exchange& exchange) -> Task<void> {
      Response response{.body = "\"hello\""};
      co_await exchange.reply(std::move(response));
    });
    router.add("POST", "/body",
               [](Exchange& exchange) -> Task<void> {
                 const std::string body = co_await exchange.read_body();
                 Response response{.body = std::to_string(body.size())};
                 co_await exchange.reply(std::move(response));
               },
               {.max_body = 1000});
    router.add("GET", "/wait", [this](Exchange& exchange) -> Task<void> {
      if (!release) release = std::make_unique<Event>((co_await boost::asio::this_coro::executor));
      const Event& client_gone = exchange.client_gone();
      ++begun;
      co_await release->wait();
      Response response{.body = client_gone.is_set() ? "gone" : "there"};
      co_await exchange.reply(std::move(response));
    });
    router.add("GET", "/release", [this](Exchange& exchange) -> Task<void> {
      release->set();
      Response response;
      co_await exchange.reply(std::move(response));
    });
    router.add("POST", "/until-gone",
               [this](Exchange& exchange) -> Task<void> {
                 ++begun;
                 co_await exchange.client_gone().wait();
                 ++gone;
               },
               {.body = BodyKind::any});
    router.add("GET", "/flood", [this](Exchange& exchange) -> Task<void> {
      co_await exchange.begin(200, "application/octet-stream", {});
      try {
        for (;;) co_await exchange.write(std::string(64u << 10, 'x'));
      } catch (const Error&) {
        ++failed;
        throw;
      }
    });
  }
};

class ServerFaultsTest : public testing::Test {
 protected:
  ServerFaultsTest() { start({}); }

  void start(ServerConfig config) {
    server_.reset();
    server_ = std::make_unique<TestServer>([this](Router& router) { waiting_.fill(router); },
                                           std::move(config));
  }
  std::string head(std::string_view line, std::string_view headers = "") {
    return str(line, " HTTP/1.1\r\nHost: localhost:", server_->port(), "\r\n", headers, "\r\n");
  }
  RawClient connect() { return RawClient(server_->port()); }

  Waiting waiting_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(ServerFaultsTest, GivesAWholeHeadOneDeadlineHoweverItTricklesIn) {
  start({.head_deadline = milliseconds(100)});
  RawClient client = connect();
  const std::string bytes = head("GET /hello", str("X-Slow: ", std::string(10'000, 'x'), "\r\n"));
  std::size_t sent = 0;
  while (!client.readable_within(1) && sent < bytes.size()) client.send(bytes.substr(sent++, 1));
  ASSERT_LT(sent, bytes.size());
  EXPECT_EQ(status_in(client.read_answer()), 408);
}

TEST_F(ServerFaultsTest, ClosesAClientThatSaysNothing) {
  start({.head_deadline = milliseconds(20)});
  EXPECT_TRUE(connect().closed());
}

TEST_F(ServerFaultsTest, ClosesAnIdleConnection) {
  start({.idle_deadline = milliseconds(20)});
  RawClient client = connect();
  EXPECT_EQ(status_in(client.ask(head("GET /hello"))), 200);
  EXPECT_TRUE(client.closed());
}

TEST_F(ServerFaultsTest, GivesABodyADeadline) {
  start({.body_deadline = milliseconds(20)});
  RawClient client = connect();
  client.send(head("POST /body", "Content-Type: application/json\r\nContent-Length: 10\r\n") + "x");
  EXPECT_EQ(status_in(client.read_answer()), 408);
  EXPECT_TRUE(client.closed());
}

TEST_F(ServerFaultsTest, DropsAClientThatDoesNotRead) {
  start({.write_deadline = milliseconds(50)});
  RawClient client = connect();
  client.send(head("GET /flood"));
  EXPECT_TRUE(eventually([&] { return waiting_.failed == 1; }));
  EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
}

TEST_F(ServerFaultsTest, RefusesAHeadThatIsTooLarge) {
  RawClient client = connect();
  client.send(head("GET /hello", str("X-Large: ", std::string(17'000, 'x'), "\r\n")));
  EXPECT_EQ(status_in(client.read_answer()), 431);
  EXPECT_TRUE(client.closed());
}

std::size_t resident_bytes() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

TEST_F(ServerFaultsTest, RefusesAnAnnouncedGigabyteAtOnce) {
  RawClient client = connect();
  const std::string json = "Content-Type: application/json\r\n";
  const std::string answer =
      client.ask(head("POST /body", str(json, "Content-Length: 1073741824\r\n")));
  EXPECT_EQ(status_in(answer), 413);
  EXPECT_TRUE(contains(answer, "\"code\":\"payload_too_large\""));
  EXPECT_TRUE(client.closed());
}

TEST_F(ServerFaultsTest, RefusesAnEndlessChunkedBodyWithoutBufferingIt) {
  const std::size_t before = resident_bytes();
  RawClient client = connect();
  client.send(
      head("POST /body", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"));
  client.send("40000000\r\n");
  const std::string megabyte(1u << 20, 'x');
  int sent = 0;
  while (sent < 256 && client.send(megabyte)) ++sent;
  EXPECT_LT(sent, 256);
  EXPECT_EQ(status_in(client.read_answer()), 413);
  EXPECT_LT(resident_bytes(), before + (32u << 20));
}

TEST_F(ServerFaultsTest, TellsAHandlerThatItsClientIsGone) {
  RawClient client = connect();
  client.send(head("POST /until-gone"));
  ASSERT_TRUE(eventually([&] { return waiting_.begun == 1; }));
  EXPECT_EQ(waiting_.gone, 0);
  client.close();
  EXPECT_TRUE(eventually([&] { return waiting_.gone == 1; }));
  EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
}

TEST_F(ServerFaultsTest, TellsAHandlerThatItsClientIsGoneBehindAnUnreadBody) {
  RawClient client = connect();
  client.send(head("POST /until-gone", "Content-Length: 9\r\n") + "some");
  ASSERT_TRUE(eventually([&] { return waiting_.begun == 1; }));
  client.send("more");
  client.close();
  EXPECT_TRUE(eventually([&] { return waiting_.gone == 1; }));
}

TEST_F(ServerFaultsTest, TakesPipelinedBytesForNoEnd) {
  RawClient client = connect();
  client.send(head("GET /wait") + head("GET /hello"));
  ASSERT_TRUE(eventually([&] { return waiting_.begun == 1; }));
  client.send(head("GET /hello"));
  EXPECT_EQ(status_in(connect().ask(head("GET /release"))), 200);
  EXPECT_EQ(body_in(client.read_answer()), "there");
  EXPECT_EQ(body_in(client.read_answer()), "\"hello\"");
  EXPECT_EQ(body_in(client.read_answer()), "\"hello\"");
  EXPECT_EQ(status_in(client.ask(head("GET /hello"))), 200);
}

TEST_F(ServerFaultsTest, FinishesHandlersAndClosesIdleConnectionsWhenItStops) {
  RawClient idle = connect();
  EXPECT_EQ(status_in(idle.ask(head("GET /hello"))), 200);
  RawClient half = connect();
  half.send("GET /he");
  RawClient client = connect();
  client.send(head("GET /wait"));
  RawClient releasing = connect();
  ASSERT_TRUE(eventually([&] { return waiting_.begun == 1; }));
  std::future<void> stopped = server_->stop(std::chrono::seconds(30));
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(half.closed());
  EXPECT_EQ(stopped.wait_for(milliseconds(0)), std::future_status::timeout);
  boost::asio::post(server_->io(), [this] { waiting_.release->set(); });
  const std::string answer = client.read_answer();
  EXPECT_EQ(body_in(answer), "there");
  EXPECT_TRUE(contains(answer, "Connection: close"));
  client.close();
  stopped.get();
  EXPECT_EQ(server_->counts().connections, 0u);
  EXPECT_THROW(connect(), SystemError);
}

TEST_F(ServerFaultsTest, CancelsHandlersThatOutlastTheGrace) {
  RawClient client = connect();
  client.send(head("GET /wait"));
  RawClient flooded = connect();
  flooded.send(head("GET /flood"));
  ASSERT_TRUE(eventually([&] { return waiting_.begun == 1 && server_->counts().busy == 2; }));
  server_->stop(milliseconds(1)).get();
  const std::string answer = client.read_answer();
  EXPECT_EQ(status_in(answer), 503);
  EXPECT_TRUE(contains(answer, "\"code\":\"runtime_unavailable\"")) << answer;
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(server_->counts().connections, 0u);
}

TEST_F(ServerFaultsTest, AnswersBusyAboveItsMaximumOfConnections) {
  start({.max_connections = 2, .queue_deadline = milliseconds(20)});
  RawClient first = connect();
  RawClient second = connect();
  EXPECT_EQ(status_in(first.ask(head("GET /hello"))), 200);
  EXPECT_EQ(status_in(second.ask(head("GET /hello"))), 200);
  RawClient third = connect();
  EXPECT_EQ(status_in(third.ask(head("GET /hello"))), 503);
  EXPECT_TRUE(third.closed());
  EXPECT_EQ(status_in(first.ask(head("GET /hello"))), 200);
  first.close();
  ASSERT_TRUE(eventually([&] { return server_->counts().connections == 1; }));
  EXPECT_EQ(status_in(connect().ask(head("GET /hello"))), 200);
}

// Lowers the number of descriptors this process may have, for as long as it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(std::size_t left) {
    check_syscall("getrlimit", ::getrlimit(RLIMIT_NOFILE, &before_));
    std::vector<UniqueFd> free;  // the lowest numbers that are free
    while (free.size() < left) free.emplace_back(check_syscall("dup", ::dup(0)));
    const rlimit few{.rlim_cur = static_cast<rlim_t>(free.back().get()) + 1,
                     .rlim_max = before_.rlim_max};
    check_syscall("setrlimit", ::setrlimit(RLIMIT_NOFILE, &few));
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(ServerFaultsTest, AnswersBusyWithoutDescriptorsAndRecovers) {
  start({.linger_deadline = milliseconds(100)});
  RawClient existing = connect();
  EXPECT_EQ(status_in(existing.ask(head("GET /hello"))), 200);
  {
    // The clients have their descriptors before, so that they do not compete with the server.
    std::vector<RawClient> clients(6);
    const FewDescriptors few(3);
    for (RawClient& client : clients) client.connect(server_->port());
    EXPECT_EQ(status_in(existing.ask(head("GET /hello"))), 200);
    std::vector<int> statuses;
    statuses.reserve(clients.size());
    for (RawClient& client : clients) statuses.push_back(status_in(client.ask(head("GET /hello"))));
    EXPECT_EQ(statuses, (std::vector<int>{200, 200, 200, 503, 503, 503}));
    // Each refusal is one client: the loop does not spin.
    EXPECT_EQ(server_->counts().refused, 3u);
  }
  EXPECT_EQ(status_in(connect().ask(head("GET /hello"))), 200);
  EXPECT_EQ(status_in(existing.ask(head("GET /hello"))), 200);
}

TEST_F(ServerFaultsTest, LeavesNoDescriptorBehind) {
  const auto open_descriptors = [] {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(status_in(connect().ask(head("GET /hello"))), 200);
  ASSERT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
  const std::size_t before = open_descriptors();
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    RawClient client = connect();
    client.send(head(round % 2 == 0 ? "POST /until-gone" : "GET /none"));
    if (round % 3 == 0) client.send("garbage\n\n");
  }
  ASSERT_TRUE(eventually([&] {
    const ServerCounts counts = server_->counts();
    return counts.accepted == 1 + kRounds && counts.connections == 0;
  }));
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace caisson::net
