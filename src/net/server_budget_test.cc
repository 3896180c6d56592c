#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

#include "base/str.h"
#include "net/websocket_for_test.h"

// What is kept in memory for peers, and for how long.
namespace caisson::net {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMiB = 1u << 20;

class ServerBudgetTest : public testing::Test {
 protected:
  void start(std::size_t budget, ServerConfig config = {}) {
    config.budget = std::make_shared<Budget>(budget);
    const auto fill = [this](Router& router) {
      routes_.fill(router);
      const RouteOptions large{.max_body = 64 * kMiB, .body = BodyKind::any};
      router.add(
          "POST", "/body",
          [](Exchange& exchange) -> Task<void> {
            const std::string body = co_await exchange.read_body();
            Response response{.body = std::to_string(body.size())};
            co_await exchange.reply(std::move(response));
          },
          large);
      router.add("GET", "/large", [](Exchange& exchange) -> Task<void> {
        Response response{.body = std::string(8 * kMiB, 'x')};
        co_await exchange.reply(std::move(response));
      });
    };
    server_ = std::make_unique<TestServer>(fill, std::move(config));
  }
  std::string head(std::string_view line, std::string_view headers = "") {
    return str(line, " HTTP/1.1\r\nHost: localhost:", server_->port(), "\r\n", headers, "\r\n");
  }
  BudgetStatus buffers() { return server_->counts().buffers; }

  Conversations routes_;
  std::unique_ptr<TestServer> server_;
};

// The beginning of a message of 16 MiB, all but its last byte.
std::string most_of_a_message() {
  std::string frame = client_frame(Opcode::binary, std::string(16 * kMiB - 1, 'x'));
  frame.pop_back();
  return frame;
}

// As the kernel does for a process that is killed: what it has not sent is not sent any more.
void reset(int socket) {
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  check_syscall("connect", ::connect(socket, &nobody, sizeof nobody));
}

TEST_F(ServerBudgetTest, UnfinishedMessagesOfManyStayWithinTheBudgetAndHarmNobody) {
  start(64 * kMiB, {.body_deadline = std::chrono::hours(1), .linger_deadline = milliseconds(20)});
  const std::string unfinished = most_of_a_message();
  std::deque<RawWebSocket> greedy;
  std::vector<std::thread> senders;
  for (int i = 0; i < 12; ++i) {
    RawWebSocket& socket = greedy.emplace_back(server_->port(), "/echo");
    senders.emplace_back([&socket, &unfinished] { socket.send(unfinished); });
  }
  EXPECT_TRUE(eventually([&] { return buffers().incoming >= 32 * kMiB; }));
  RawWebSocket modest(server_->port(), "/echo");
  const std::string message(kMiB, 'm');
  modest.send_frame(Opcode::binary, message);
  std::string echoed;
  for (bool whole = false; !whole;) {
    const RawWebSocket::Frame frame = modest.read_frame();
    ASSERT_NE(static_cast<int>(frame.head.opcode), static_cast<int>(Opcode::close));
    echoed += frame.payload;
    whole = frame.head.final;
  }
  EXPECT_TRUE(echoed == message);
  EXPECT_LE(buffers().peak, 50 * kMiB);
  for (RawWebSocket& socket : greedy) reset(socket.fd());
  for (std::thread& sender : senders) sender.join();
  modest.close();
  EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
  EXPECT_EQ(buffers().incoming, 0u);
}

TEST_F(ServerBudgetTest, ClosesAConversationWhoseMessageDoesNotComeWholeInTime) {
  start(64 * kMiB, {.body_deadline = milliseconds(50)});
  RawWebSocket silent(server_->port(), "/echo");
  silent.send(client_frame(Opcode::text, "the beginning", false));
  EXPECT_EQ(silent.read_close(), 1008);
  // And one of which something comes all the time, but never the end.
  RawWebSocket trickling(server_->port(), "/echo");
  trickling.send(client_frame(Opcode::text, "", false));
  while (!trickling.readable_within(1))
    trickling.send(client_frame(Opcode::continuation, "", false));
  EXPECT_EQ(trickling.read_close(), 1008);
}

TEST_F(ServerBudgetTest, GivesEveryMessageItsOwnDeadline) {
  start(64 * kMiB, {.body_deadline = milliseconds(200)});
  RawWebSocket client(server_->port(), "/echo");
  const auto until = std::chrono::steady_clock::now() + milliseconds(600);
  while (std::chrono::steady_clock::now() < until) {
    client.send_frame(Opcode::text, "whole");
    ASSERT_EQ(client.read(Opcode::text), "whole");
  }
}

TEST_F(ServerBudgetTest, TellsWhoseMessageFindsNoRoomToTryAgain) {
  start(kMiB, {.body_deadline = milliseconds(50)});
  RawWebSocket client(server_->port(), "/echo");
  EXPECT_TRUE(client.send(client_frame(Opcode::binary, std::string(4 * kMiB, 'x'))));
  EXPECT_EQ(client.read_close(), 1013);
}

TEST_F(ServerBudgetTest, AnswersBusyToABodyThatFindsNoRoom) {
  start(8 * kMiB);
  RawClient client(server_->port());
  const std::string body(16 * kMiB, 'x');
  EXPECT_TRUE(client.send(head("POST /body", str("Content-Length: ", body.size(), "\r\n"))));
  EXPECT_TRUE(client.send(body));
  const std::string answer = client.read_answer();
  EXPECT_EQ(status_in(answer), 503);
  EXPECT_TRUE(contains(answer, "Retry-After: 1\r\n")) << answer;
  RawClient modest(server_->port());
  EXPECT_EQ(status_in(modest.ask(head("POST /body", "Content-Length: 5\r\n") + "12345")), 200);
  EXPECT_EQ(buffers().refused, 1u);
}

TEST_F(ServerBudgetTest, SlowReadersStayWithinTheBudgetAndMakeWayForOthers) {
  start(64 * kMiB);
  std::deque<RawClient> slow;
  for (int i = 0; i < 12; ++i) {
    slow.emplace_back(server_->port()).send(head("GET /large"));
  }
  EXPECT_TRUE(eventually([&] { return buffers().outgoing >= 32 * kMiB; }));
  // Until the others have been slow for long enough, there may be no room for it.
  std::string answer;
  EXPECT_TRUE(eventually([&] {
    RawClient quick(server_->port());
    answer = quick.ask(head("GET /large"));
    return status_in(answer) == 200;
  }));
  EXPECT_EQ(body_in(answer).size(), 8 * kMiB);
  EXPECT_GT(buffers().evicted, 0u);
  EXPECT_LE(buffers().peak, 64 * kMiB);
  slow.clear();
  EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
  EXPECT_EQ(buffers().outgoing, 0u);
}

TEST_F(ServerBudgetTest, TakesTheHeadsOfStrangersFromWhatIsTheirs) {
  start(512u << 10, {.token = "secret",
                     .without_token = WithoutToken::nobody,
                     .linger_deadline = milliseconds(1)});
  std::deque<RawClient> strangers;
  for (int i = 0; i < 4; ++i) strangers.emplace_back(server_->port());
  ASSERT_TRUE(eventually([&] { return server_->counts().connections == 4; }));
  EXPECT_EQ(buffers().incoming, 64u << 10);
  RawClient one_more(server_->port());
  EXPECT_EQ(status_in(one_more.ask(head("GET /large"))), 503);
  strangers.clear();
  ASSERT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
  EXPECT_EQ(status_in(RawClient(server_->port()).ask(head("GET /large"))), 401);
}

}  // namespace
}  // namespace caisson::net
