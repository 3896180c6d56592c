#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/post.hpp>

#include "net/client.h"
#include "net/listener.h"
#include "net/websocket_for_test.h"

namespace caisson::net {
namespace {

using std::chrono::milliseconds;

// Short, for a server that looks after its deadlines often.
ServerConfig attentive() {
  return {.linger_deadline = milliseconds(20)};
}

class WebSocketFaultsTest : public testing::Test {
 protected:
  void start(ServerConfig config = {}) {
    server_ = std::make_unique<TestServer>([this](Router& router) { routes_.fill(router); },
                                           std::move(config));
  }
  RawWebSocket open(std::string_view target, std::string_view bytes = "") {
    return {server_->port(), target, bytes};
  }
  bool all_gone() {
    return eventually([&] { return server_->counts().connections == 0; });
  }

  Conversations routes_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(WebSocketFaultsTest, AnswersPingsWhileTheHandlerDoesSomethingElse) {
  start();
  RawWebSocket client = open("/hold");
  client.send_frame(Opcode::text, "unread");
  client.send_frame(Opcode::ping, "there?");
  EXPECT_EQ(client.read(Opcode::pong), "there?");
  client.send_frame(Opcode::close, "\x03\xE8");
  EXPECT_EQ(client.read_close(), 1000);
  client.close();
  EXPECT_TRUE(all_gone());
}

TEST_F(WebSocketFaultsTest, AnswersPingsInTheMiddleOfALongMessage) {
  start();
  RawWebSocket client = open("/flood");
  EXPECT_FALSE(client.read_frame().head.final);
  // One message follows the other: a pong may also come between two of them.
  bool in_the_middle = false;
  for (int asked = 0; asked < 100 && !in_the_middle; ++asked) {
    client.send_frame(Opcode::ping, "there?");
    RawWebSocket::Frame frame = client.read_frame();
    // What is in the buffers of the system comes before.
    while (frame.head.opcode != Opcode::pong) {
      ASSERT_NE(static_cast<int>(frame.head.opcode), static_cast<int>(Opcode::close));
      frame = client.read_frame();
    }
    EXPECT_EQ(frame.payload, "there?");
    in_the_middle = client.read_frame().head.opcode == Opcode::continuation;
  }
  EXPECT_TRUE(in_the_middle);
}

TEST_F(WebSocketFaultsTest, KeepsOnlyTheLastPongForAPeerThatDoesNotRead) {
  start();
  RawWebSocket client = open("/flood");
  std::string pings;
  for (int number = 0; number < 100'000; ++number) {
    pings += client_frame(Opcode::ping, std::to_string(number));
  }
  client.send(pings);
  int pongs = 0;
  std::string last;
  while (last != "99999") {
    const RawWebSocket::Frame frame = client.read_frame();
    ASSERT_NE(static_cast<int>(frame.head.opcode), static_cast<int>(Opcode::close));
    if (frame.head.opcode != Opcode::pong) continue;
    last = frame.payload;
    ++pongs;
  }
  EXPECT_LT(pongs, 100'000);
}

TEST_F(WebSocketFaultsTest, AsksAQuietPeerAndGoesOnWhenItAnswers) {
  routes_.options.ping_interval = milliseconds(1000);
  start(attentive());
  RawWebSocket client = open("/echo");
  for (int round = 0; round < 2; ++round) {
    client.send_frame(Opcode::pong, client.read(Opcode::ping));
  }
  client.send_frame(Opcode::text, "still here");
  EXPECT_EQ(client.read(Opcode::text), "still here");
}

TEST_F(WebSocketFaultsTest, GivesUpAPeerThatAnswersNothing) {
  routes_.options.ping_interval = milliseconds(20);
  start(attentive());
  RawWebSocket client = open("/echo");
  EXPECT_TRUE(all_gone());
  EXPECT_EQ(routes_.last_code, 1006);
  // When it wakes it finds out.
  RawWebSocket::Frame frame = client.read_frame();
  while (frame.head.opcode == Opcode::ping) frame = client.read_frame();
  EXPECT_EQ(decode_close(frame.payload).code, CloseCode::internal_error);
}

TEST_F(WebSocketFaultsTest, GivesUpAPeerThatTakesNothing) {
  routes_.options.ping_interval = milliseconds(20);
  start(attentive());
  const RawWebSocket client = open("/flood");
  EXPECT_TRUE(all_gone());
  EXPECT_EQ(routes_.last_code, 1006);
}

TEST_F(WebSocketFaultsTest, WaitsForAPeerThatReadsSlowlyAndAnswersNothing) {
  routes_.options.ping_interval = milliseconds(500);
  start(attentive());
  RawWebSocket client = open("/flood");
  // For longer than a peer would be waited for that takes nothing.
  const Deadline end = Clock::now() + 8 * routes_.options.ping_interval;
  while (Clock::now() < end) {
    ASSERT_EQ(client.read_bytes(16u << 10).size(), 16u << 10);
    ::poll(nullptr, 0, 5);
  }
  EXPECT_EQ(server_->counts().websockets, 1u);
  EXPECT_EQ(routes_.ended, 0);
}

TEST_F(WebSocketFaultsTest, DoesNotGiveUpAPeerThatItsOwnHandlerDoesNotListenTo) {
  routes_.options.ping_interval = milliseconds(20);
  start(attentive());
  // More than is kept for a handler that does not read, so that answers would not be read either.
  std::string frames;
  for (int i = 0; i < 8; ++i) {
    frames += client_frame(Opcode::binary, std::string(64u << 10, 'x'));
  }
  RawWebSocket client = open("/hold", frames + client_frame(Opcode::ping, "behind"));
  EXPECT_FALSE(client.readable_within(500));
  EXPECT_EQ(routes_.ended, 0);
}

TEST_F(WebSocketFaultsTest, SeesAPeerThatGoesWithoutClosing) {
  start();
  open("/hold").close();
  EXPECT_TRUE(all_gone());
  EXPECT_EQ(routes_.last_code, 1006);
}

TEST_F(WebSocketFaultsTest, SaysHowManyOfManyTextsWereTakenWhenThePeerGoes) {
  start();
  RawWebSocket client = open("/numbers/3000");
  EXPECT_EQ(client.read(Opcode::text), numbered_text(0));
  ASSERT_TRUE(eventually([&] { return routes_.numbers_taken > 0; }));
  client.close();
  ASSERT_TRUE(eventually([&] { return routes_.ended == 1; }));
  EXPECT_LT(routes_.numbers_taken, 3000u);
}

TEST_F(WebSocketFaultsTest, WaitsForTheAnswerToItsCloseForAWhileOnly) {
  routes_.options.close_deadline = milliseconds(20);
  start(attentive());
  RawWebSocket client = open("/bye");
  EXPECT_TRUE(all_gone());
  EXPECT_EQ(client.read_close(), 4000);
}

TEST_F(WebSocketFaultsTest, ClosesConversationsWhenTheServerStops) {
  start();
  RawWebSocket idle = open("/hold");
  RawWebSocket talking = open("/echo");
  talking.send_frame(Opcode::text, "hello");
  EXPECT_EQ(talking.read(Opcode::text), "hello");
  ASSERT_TRUE(eventually([&] { return server_->counts().websockets == 2; }));
  std::future<void> stopped = server_->stop(std::chrono::seconds(30));
  for (RawWebSocket* client : {&idle, &talking}) {
    EXPECT_EQ(client->read_close(), 1001);
    client->send_frame(Opcode::close, "\x03\xE9");
  }
  stopped.get();
  EXPECT_EQ(routes_.ended, 2);
  EXPECT_EQ(server_->counts().connections, 0u);
}

TEST_F(WebSocketFaultsTest, CutsConversationsThatOutlastTheGrace) {
  start();
  RawWebSocket silent = open("/echo");
  RawWebSocket stuck = open("/flood");
  ASSERT_TRUE(eventually([&] { return server_->counts().websockets == 2; }));
  server_->stop(milliseconds(20)).get();
  EXPECT_EQ(silent.read_close(), 1001);
  EXPECT_EQ(server_->counts().connections, 0u);
}

// What a client makes of a server.
Task<CloseReason> hear_out(Client& client, std::string target,
                           milliseconds ping_interval = std::chrono::seconds(30)) {
  WebSocketRequest request{.target = std::move(target)};
  request.options.ping_interval = ping_interval;
  WebSocketAnswer answer = co_await client.open_websocket(std::move(request));
  for (;;) {
    const std::optional<Message> message = co_await answer.socket->read();
    if (!message) co_return answer.socket->reason();
  }
}

TEST_F(WebSocketFaultsTest, TellsAClientThatTheServerStops) {
  start();
  boost::asio::io_context io;
  Client client(io.get_executor(), {.address = str("http://127.0.0.1:", server_->port())});
  std::thread stopping([&] {
    EXPECT_TRUE(eventually([&] { return routes_.begun == 1; }));
    server_->stop(std::chrono::seconds(30)).get();
  });
  EXPECT_EQ(run(io, hear_out(client, "/hold")),
            (CloseReason{CloseCode::going_away, "the daemon stops"}));
  stopping.join();
}

// A server of one client that accepts its websocket and then sends exactly these bytes.
class CannedWebSocket {
 public:
  explicit CannedWebSocket(std::string bytes) : listener_(Listener::tcp("127.0.0.1", 0)) {
    thread_ = std::thread([this, bytes = std::move(bytes)] {
      pollfd ready{.fd = listener_.fd(), .events = POLLIN};
      ::poll(&ready, 1, 10'000);
      const UniqueFd client = listener_.accept();
      std::string request;
      char byte = 0;
      pollfd readable{.fd = client.get(), .events = POLLIN};
      while (!request.ends_with("\r\n\r\n") && ::poll(&readable, 1, 10'000) == 1 &&
             ::recv(client.get(), &byte, 1, 0) == 1) {
        request.push_back(byte);
      }
      const std::size_t at = request.find("Sec-WebSocket-Key: ") + 19;
      const std::string answer =
          str("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Accept: ",
              accept_of_key(request.substr(at, 24)), "\r\n\r\n", bytes);
      ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      while (::poll(&readable, 1, 10'000) == 1 && ::recv(client.get(), &byte, 1, 0) == 1) {
      }
    });
  }
  ~CannedWebSocket() { thread_.join(); }
  std::string address() const { return str("http://127.0.0.1:", listener_.port()); }

 private:
  Listener listener_;
  std::thread thread_;
};

CloseCode code_for(std::string bytes, milliseconds ping_interval = std::chrono::seconds(30)) {
  const CannedWebSocket canned(std::move(bytes));
  boost::asio::io_context io;
  Client client(io.get_executor(), {.address = canned.address()});
  return run(io, hear_out(client, "/", ping_interval)).code;
}

TEST_F(WebSocketFaultsTest, AClientDoesNotTrustItsServer) {
  EXPECT_EQ(code_for(client_frame(Opcode::text, "masked")), CloseCode::protocol_error);
  EXPECT_EQ(code_for(server_frame(Opcode::text, "\xFF")), CloseCode::invalid_text);
  EXPECT_EQ(code_for(std::string("\x82\x7F\x40\0\0\0\0\0\0\0", 10)), CloseCode::too_big);
  EXPECT_EQ(code_for(server_frame(Opcode::close, "\x0F\xA0")), static_cast<CloseCode>(4000));
  // It answers no ping.
  EXPECT_EQ(code_for("", milliseconds(20)), CloseCode::lost);
}

}  // namespace
}  // namespace caisson::net
