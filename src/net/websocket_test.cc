#include "net/websocket.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "async/task_group.h"
#include "base/str.h"
#include "base/temporary_directory.h"
#include "net/client.h"
#include "net/websocket_for_test.h"

namespace caisson::net {
namespace {

namespace asio = boost::asio;

class WebSocketTest : public testing::Test {
 protected:
  WebSocketTest() { start({}); }

  void start(ServerConfig config) {
    server_.reset();
    server_ = std::make_unique<TestServer>([this](Router& router) { routes_.fill(router); },
                                           std::move(config));
  }
  RawWebSocket open(std::string_view target) { return {server_->port(), target}; }
  std::string ask(std::string_view target, std::string_view headers = "") {
    return RawClient(server_->port()).ask(upgrade_request(target, server_->port(), headers));
  }
  ClientConfig address() { return {.address = str("http://127.0.0.1:", server_->port())}; }

  Conversations routes_;
  std::unique_ptr<TestServer> server_;
  asio::io_context io_;
};

TEST_F(WebSocketTest, CarriesMessagesBothWays) {
  RawWebSocket client = open("/echo");
  client.send_frame(Opcode::text, "hello");
  EXPECT_EQ(client.read(Opcode::text), "hello");
  client.send_frame(Opcode::binary, std::string_view("\0\xFF", 2));
  EXPECT_EQ(client.read(Opcode::binary), std::string_view("\0\xFF", 2));
  client.send_frame(Opcode::text, "one ", false);
  client.send_frame(Opcode::ping, "between");
  client.send_frame(Opcode::continuation, "two");
  EXPECT_EQ(client.read(Opcode::pong), "between");
  EXPECT_EQ(client.read(Opcode::text), "one two");
  EXPECT_EQ(server_->counts().websockets, 1u);
}

TEST_F(WebSocketTest, TakesMessagesByteByByteAndAllAtOnce) {
  RawWebSocket client = open("/echo");
  const std::string frame = client_frame(Opcode::text, "slowly");
  for (const char byte : frame) client.send({&byte, 1});
  EXPECT_EQ(client.read(Opcode::text), "slowly");
  std::string many;
  for (int number = 0; number < 1000; ++number) {
    many += client_frame(Opcode::text, std::to_string(number));
  }
  client.send(many);
  for (int number = 0; number < 1000; ++number) {
    EXPECT_EQ(client.read(Opcode::text), std::to_string(number));
  }
}

TEST_F(WebSocketTest, TakesFramesThatComeTogetherWithTheHandshake) {
  RawClient client(server_->port());
  client.send(upgrade_request("/echo", server_->port()) + client_frame(Opcode::text, "early"));
  EXPECT_EQ(status_in(client.read_answer()), 101);
  EXPECT_EQ(client.read_bytes(7), server_frame(Opcode::text, "early"));
}

TEST_F(WebSocketTest, RefusesRequestsThatAreNoProperHandshake) {
  RawClient plain(server_->port());
  const std::string host = str("Host: localhost:", server_->port(), "\r\n");
  const std::string answer = plain.ask(str("GET /echo HTTP/1.1\r\n", host, "\r\n"));
  EXPECT_EQ(status_in(answer), 426);
  EXPECT_TRUE(contains(answer, "Upgrade: websocket\r\n")) << answer;
  EXPECT_TRUE(contains(answer, "\"code\":\"validation_error\"")) << answer;
  EXPECT_EQ(status_in(ask("/echo", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")), 400);
  EXPECT_EQ(status_in(ask("/nowhere")), 404);
  EXPECT_EQ(routes_.begun, 0);
}

TEST_F(WebSocketTest, LetsAHandlerRefuse) {
  const std::string answer = ask("/none");
  EXPECT_EQ(status_in(answer), 404);
  EXPECT_TRUE(contains(answer, "\"code\":\"session_not_found\"")) << answer;
  EXPECT_EQ(status_in(ask("/mcp", "Sec-WebSocket-Protocol: other\r\n")), 400);
}

TEST_F(WebSocketTest, GoesThroughTheGuard) {
  start({.token = "secret", .without_token = WithoutToken::nobody});
  EXPECT_EQ(status_in(ask("/echo")), 401);
  EXPECT_EQ(status_in(ask("/echo", "Authorization: Bearer secret\r\n")), 101);
  EXPECT_EQ(status_in(ask("/echo", "Sec-WebSocket-Protocol: caisson.bearer.wrong\r\n")), 401);
  EXPECT_EQ(status_in(ask("/echo",
                          "Authorization: Bearer secret\r\n"
                          "Origin: https://elsewhere.example\r\n")),
            403);
  const std::string answer = ask("/mcp", "Sec-WebSocket-Protocol: caisson.bearer.secret, mcp\r\n");
  EXPECT_EQ(status_in(answer), 101);
  EXPECT_TRUE(contains(answer, "Sec-WebSocket-Protocol: mcp\r\n")) << answer;
  EXPECT_FALSE(contains(answer, "secret")) << answer;
}

TEST_F(WebSocketTest, AnswersAClose) {
  RawWebSocket client = open("/echo");
  client.send_frame(Opcode::close, "\x0F\xA1 gone fishing");
  EXPECT_EQ(client.read_close(), 4001);
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(eventually([&] { return routes_.ended == 1; }));
  EXPECT_EQ(routes_.last_code, 4001);
  RawWebSocket wordless = open("/echo");
  wordless.send_frame(Opcode::close, "");
  EXPECT_EQ(wordless.read_close(), 1005);
  EXPECT_TRUE(wordless.closed());
}

TEST_F(WebSocketTest, DeliversWhatCameBeforeAClose) {
  RawWebSocket client = open("/echo");
  client.send(client_frame(Opcode::text, "last") + client_frame(Opcode::close, "\x03\xE8"));
  // The echo is not taken any more, but the handler has had its message.
  EXPECT_EQ(client.read_close(), 1000);
  EXPECT_TRUE(eventually([&] { return routes_.ended == 1; }));
}

TEST_F(WebSocketTest, ClosesFromItsSide) {
  RawWebSocket client = open("/bye");
  EXPECT_EQ(client.read(Opcode::close),
            "\x0F\xA0"
            "bye");
  client.send_frame(Opcode::text, "too late");
  client.send_frame(Opcode::close, "\x0F\xA0");
  EXPECT_TRUE(client.closed());
  client.close();
  EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
  EXPECT_EQ(routes_.last_code, 4000);
}

TEST_F(WebSocketTest, ClosesWithWhatItsHandlerCameTo) {
  const auto reason_of = [&](const char* target) {
    return decode_close(open(target).read(Opcode::close));
  };
  EXPECT_EQ(reason_of("/fail/busy"), (CloseReason{CloseCode::try_again_later, "come back later"}));
  EXPECT_EQ(reason_of("/fail/lost"), (CloseReason{CloseCode::internal_error, "the box is gone"}));
  const CloseReason hidden = reason_of("/fail/other");
  EXPECT_EQ(hidden.code, CloseCode::internal_error);
  EXPECT_FALSE(contains(hidden.text, "secret"));
}

TEST_F(WebSocketTest, ClosesOnFramesThatBreakTheRules) {
  const std::vector<std::pair<std::string, int>> rows = {
      {server_frame(Opcode::text, "no mask"), 1002},
      {client_frame(Opcode::continuation, "of nothing"), 1002},
      {"\xC1\x80", 1002},
      {client_frame(Opcode::close, "\x03\xED"), 1002},
      {client_frame(Opcode::text, "\xC0\x80"), 1007},
      {client_frame(Opcode::text, "\xE2\x82", false) + client_frame(Opcode::continuation, "("),
       1007},
      {client_frame(Opcode::close, "\x03\xE8\xFF"), 1007},
      // Four exabytes are refused by their announcement.
      {std::string("\x82\xFF\x40\0\0\0\0\0\0\0keyx", 14), 1009},
  };
  for (const auto& [bytes, code] : rows) {
    RawWebSocket client = open("/echo");
    client.send(bytes);
    EXPECT_EQ(client.read_close(), code) << bytes;
    EXPECT_TRUE(client.closed());
  }
  EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
}

// A client that echoes messages against the server, one after the other.
Task<int> echo_sizes(Client& client, std::vector<std::size_t> sizes) {
  WebSocketRequest request{.target = "/echo"};
  WebSocketAnswer answer = co_await client.open_websocket(std::move(request));
  WebSocket& socket = answer.socket.value();
  int same = 0;
  for (const std::size_t size : sizes) {
    Message message{.kind = size % 2 == 0 ? MessageKind::text : MessageKind::binary,
                    .data = std::string(size, 'a')};
    for (std::size_t i = 0; i < size; i += 997) message.data[i] = static_cast<char>(i % 100);
    Message sent{.kind = message.kind, .data = message.data};
    const bool taken = co_await socket.write(std::move(sent));
    const std::optional<Message> echoed = co_await socket.read();
    if (taken && echoed == message) ++same;
  }
  co_await socket.close();
  co_return same;
}

TEST_F(WebSocketTest, EchoesMessagesOfAllSizes) {
  std::vector<std::size_t> sizes = {0,     1,     125,   126,        127,      65535,
                                    65536, 65537, 16384, 128u << 10, 9u << 20, (128u << 10) + 1};
  std::mt19937 random(1);
  for (unsigned bits = 1; bits < 24; ++bits) sizes.push_back(random() % (1u << bits));
  Client client(io_.get_executor(), address());
  EXPECT_EQ(run(io_, echo_sizes(client, sizes)), static_cast<int>(sizes.size()));
  EXPECT_TRUE(eventually([&] { return routes_.ended == 1; }));
  EXPECT_EQ(routes_.last_code, 1000);
}

TEST_F(WebSocketTest, EchoesMessagesWithoutFragments) {
  routes_.options.max_fragment = 0;
  Client client(io_.get_executor(), address());
  const std::vector<std::size_t> sizes = {0, 1, 5u << 20};
  EXPECT_EQ(run(io_, echo_sizes(client, sizes)), 3);
}

TEST_F(WebSocketTest, WritesManyTextsAtOnceAsFarAsTheyAreTaken) {
  RawWebSocket client = open("/numbers/3000");  // more than the buffers of the system hold
  for (int number = 0; number < 3000; ++number) {
    ASSERT_EQ(client.read(Opcode::text), numbered_text(number));
  }
  EXPECT_TRUE(eventually([&] { return routes_.numbers_taken == 3000; }));
}

// Sends all at once and reads what comes without waiting as long as there is any.
Task<std::vector<std::string>> echo_together(Client& client, std::vector<std::string> texts) {
  WebSocketRequest request{.target = "/echo"};
  WebSocketAnswer answer = co_await client.open_websocket(std::move(request));
  WebSocket& socket = answer.socket.value();
  const std::size_t count = texts.size();
  const bool taken = co_await socket.write_texts(std::move(texts), [](std::size_t) {});
  EXPECT_TRUE(taken);
  std::vector<std::string> echoed;
  while (echoed.size() < count) {
    std::optional<Message> message = co_await socket.read();
    if (!message) break;
    for (; message; message = socket.read_now()) echoed.push_back(std::move(message->data));
  }
  EXPECT_FALSE(socket.read_now());
  co_return echoed;
}

TEST_F(WebSocketTest, AClientWritesManyTextsAtOnceToo) {
  Client client(io_.get_executor(), address());
  std::vector<std::string> texts = {""};
  for (int number = 0; number < 100; ++number) texts.push_back(numbered_text(number));
  EXPECT_EQ(run(io_, echo_together(client, texts)), texts);
}

TEST_F(WebSocketTest, ConnectsByTheUnixSocket) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "run" / "api.sock";
  start({.unix_sockets = {{.path = path}}});
  Client client(io_.get_executor(), {.address = "unix:" + path});
  const std::vector<std::size_t> sizes = {0, 1, 3u << 20};
  EXPECT_EQ(run(io_, echo_sizes(client, sizes)), 3);
}

// Reads and writes at the same time: more than both directions can hold.
Task<std::size_t> stream_both_ways(Client& client, int messages) {
  WebSocketRequest request{.target = "/echo"};
  WebSocketAnswer answer = co_await client.open_websocket(std::move(request));
  WebSocket& socket = answer.socket.value();
  const auto write_all = [](WebSocket& to, int count) -> Task<void> {
    for (int i = 0; i < count; ++i) co_await to.write_binary(std::string(1u << 20, 'x'));
  };
  TaskGroup writing(co_await asio::this_coro::executor);
  writing.spawn("writing", write_all(socket, messages));
  std::size_t bytes = 0;
  for (int i = 0; i < messages; ++i) {
    const std::optional<Message> message = co_await socket.read();
    if (message) bytes += message->data.size();
  }
  co_await writing.finish();
  co_return bytes;
}

TEST_F(WebSocketTest, ReadsWhileAnotherCoroutineWrites) {
  Client client(io_.get_executor(), address());
  EXPECT_EQ(run(io_, stream_both_ways(client, 40)), 40u << 20);
  EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
  EXPECT_EQ(routes_.last_code, 1001);
}

Task<std::string> offer(Client& client, std::vector<std::string> subprotocols) {
  WebSocketRequest request{.target = "/mcp", .subprotocols = std::move(subprotocols)};
  WebSocketAnswer answer = co_await client.open_websocket(std::move(request));
  if (!answer.socket) co_return str(answer.response.status, answer.response.body);
  const std::optional<Message> offered = co_await answer.socket->read();
  const std::optional<Message> end = co_await answer.socket->read();
  co_return str(answer.socket->subprotocol(), "|", offered ? offered->data : "none", "|",
                end ? "more" : std::to_string(static_cast<int>(answer.socket->reason().code)));
}

TEST_F(WebSocketTest, AgreesOnASubprotocol) {
  start({.token = "secret", .without_token = WithoutToken::nobody});
  ClientConfig with_token = address();
  with_token.token = "secret";
  Client client(io_.get_executor(), with_token);
  EXPECT_EQ(run(io_, offer(client, {"other", "mcp"})), "mcp|other,mcp|1000");
  EXPECT_TRUE(contains(run(io_, offer(client, {"other"})), "400{\"error\""));
  Client without(io_.get_executor(), address());
  EXPECT_TRUE(contains(run(io_, offer(without, {"mcp"})), "401"));
  EXPECT_EQ(run(io_, offer(without, {"mcp", "caisson.bearer.secret"})), "mcp|mcp|1000");
}

}  // namespace
}  // namespace caisson::net
