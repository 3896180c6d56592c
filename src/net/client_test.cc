#include "net/client.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/event.h"
#include "base/str.h"
#include "net/server_for_test.h"

namespace caisson::net {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

void fill(Router& router) {
  router.add("POST", "/echo",
             [](Exchange& exchange) -> Task<void> {
               const std::string body = co_await exchange.read_body();
               Response response{.status = 201, .headers = {{"X-Seen", "yes"}}, .body = body};
               co_await exchange.reply(std::move(response));
             },
             {.max_body = 4u << 20});
  router.add("POST", "/upload",
             [](Exchange& exchange) -> Task<void> {
               std::size_t bytes = 0;
               for (;;) {
                 const auto piece = co_await exchange.read_some();
                 if (!piece) break;
                 bytes += piece->size();
               }
               Response response{.body = std::to_string(bytes)};
               co_await exchange.reply(std::move(response));
             },
             {.max_body = 1u << 20, .body = BodyKind::any});
  router.add("GET", "/token", [](Exchange& exchange) -> Task<void> {
    const std::string* token = exchange.request().find("authorization");
    Response response{.body = token == nullptr ? "none" : *token};
    co_await exchange.reply(std::move(response));
  });
  router.add("GET", "/events", [](Exchange& exchange) -> Task<void> {
    co_await exchange.begin(200, "text/event-stream", {});
    for (int number = 0; number < 3; ++number)
      co_await exchange.write(str("data: ", number, "\n\n"));
    co_await exchange.end();
  });
  router.add("GET", "/cut", [](Exchange& exchange) -> Task<void> {
    co_await exchange.begin(200, "text/plain", {});
    co_await exchange.write("half");
    throw Error(ErrorCode::box_lost, "gone");
  });
  router.add("GET", "/never",
             [](Exchange& exchange) -> Task<void> { co_await exchange.client_gone().wait(); });
}

class ClientTest : public testing::Test {
 protected:
  ClientConfig config() { return {.address = str("http://127.0.0.1:", server_.port())}; }
  Response ask(Client& client, ClientRequest request) {
    return run(io_, client.request(std::move(request)));
  }
  ErrorCode failure_of(Client& client, ClientRequest request) {
    try {
      ask(client, std::move(request));
    } catch (const Error& error) {
      message_ = error.what();
      return error.code();
    }
    ADD_FAILURE() << "no failure";
    return ErrorCode::internal_error;
  }
  TestServer server_{fill};
  asio::io_context io_;
  std::string message_;
};

TEST_F(ClientTest, KeepsItsConnection) {
  Client client(io_.get_executor(), config());
  for (int round = 0; round < 3; ++round) {
    const Response response = ask(client, {.method = "POST", .target = "/echo", .body = "{}"});
    EXPECT_EQ(response.status, 201);
    EXPECT_EQ(response.body, "{}");
    EXPECT_EQ(response.content_type, "application/json");
    EXPECT_NE(find_header(response.headers, "x-seen"), nullptr);
  }
  EXPECT_EQ(server_.counts().accepted, 1u);
}

TEST_F(ClientTest, ConnectsAgainWhenTheServerHasClosed) {
  TestServer impatient(fill, {.idle_deadline = milliseconds(1)});
  Client client(io_.get_executor(), {.address = str("http://localhost:", impatient.port())});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(ask(client, {.target = "/token"}).status, 200);
  }
}

TEST_F(ClientTest, SendsItsToken) {
  ClientConfig with_token = config();
  Client without(io_.get_executor(), config());
  EXPECT_EQ(ask(without, {.target = "/token"}).body, "none");
  with_token.token = "wrong";
  Client client(io_.get_executor(), with_token);
  EXPECT_EQ(ask(client, {.target = "/token"}).status, 401);
}

TEST_F(ClientTest, CarriesLargeBodiesBothWays) {
  Client client(io_.get_executor(), config());
  const std::string body(3u << 20, 'x');
  EXPECT_EQ(ask(client, {.method = "POST", .target = "/echo", .body = body}).body, body);
}

TEST_F(ClientTest, YieldsTheBodyInPieces) {
  const auto read = [](Client& client) -> Task<std::string> {
    ClientRequest request{.target = "/events"};
    const Response head = co_await client.open(std::move(request));
    std::string all = head.content_type + "|";
    for (;;) {
      const auto piece = co_await client.read_some();
      if (!piece) co_return all;
      all += *piece;
    }
  };
  Client client(io_.get_executor(), config());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(run(io_, read(client)), "text/event-stream|data: 0\n\ndata: 1\n\ndata: 2\n\n");
  }
  EXPECT_EQ(server_.counts().accepted, 1u);
}

ChunkSource source_of(int chunks, std::size_t bytes) {
  return [left = chunks, bytes]() mutable -> Task<std::optional<std::string>> {
    if (left-- == 0) co_return std::nullopt;
    co_return std::string(bytes, 'x');
  };
}

TEST_F(ClientTest, UploadsFromASource) {
  Client client(io_.get_executor(), config());
  ClientRequest request{.method = "POST", .target = "/upload", .source = source_of(10, 1000)};
  EXPECT_EQ(ask(client, std::move(request)).body, "10000");
  EXPECT_EQ(ask(client, {.target = "/token"}).status, 200);
  EXPECT_EQ(server_.counts().accepted, 1u);
}

TEST_F(ClientTest, SeesTheRefusalOfAnUpload) {
  Client client(io_.get_executor(), config());
  ClientRequest request{
      .method = "POST", .target = "/upload", .source = source_of(10'000, 1u << 16)};
  EXPECT_EQ(ask(client, std::move(request)).status, 413);
  EXPECT_EQ(ask(client, {.target = "/token"}).status, 200);
}

TEST_F(ClientTest, SaysWhereNobodyAnswers) {
  Client client(io_.get_executor(), {.address = "unix:/no/such/socket"});
  EXPECT_EQ(failure_of(client, {}), ErrorCode::backend_unavailable);
  EXPECT_TRUE(contains(message_, "unix:/no/such/socket"));
  EXPECT_TRUE(contains(message_, "caisson serve"));
  for (const char* address : {"", "localhost:5410", "https://x", "http://", "unix:relative"}) {
    EXPECT_THROW(Client(io_.get_executor(), {.address = address}), Error) << address;
  }
}

TEST_F(ClientTest, DoesNotWaitForEver) {
  Client client(io_.get_executor(), config());
  EXPECT_EQ(failure_of(client, {.target = "/never", .patience = milliseconds(20)}),
            ErrorCode::timeout);
  EXPECT_EQ(ask(client, {.target = "/token"}).status, 200);
}

TEST_F(ClientTest, NoticesACutAnswer) {
  Client client(io_.get_executor(), config());
  EXPECT_EQ(failure_of(client, {.target = "/cut"}), ErrorCode::protocol_error);
  EXPECT_EQ(ask(client, {.target = "/token"}).status, 200);
}

TEST_F(ClientTest, LimitsTheAnswer) {
  ClientConfig small = config();
  small.max_body = 1000;
  Client client(io_.get_executor(), small);
  EXPECT_EQ(
      failure_of(client, {.method = "POST", .target = "/echo", .body = std::string(2000, 'x')}),
      ErrorCode::payload_too_large);
}

TEST_F(ClientTest, RefusesToSendALineBreakInAHeader) {
  Client client(io_.get_executor(), config());
  EXPECT_EQ(failure_of(client, {.headers = {{"X-A", "b\r\nX-C: d"}}}), ErrorCode::validation_error);
  EXPECT_EQ(failure_of(client, {.target = "/ HTTP/1.1\r\nX: y"}), ErrorCode::validation_error);
}

// A server that sends exactly the bytes it is given to whoever connects, and closes.
class CannedServer {
 public:
  explicit CannedServer(std::string answer) {
    fd_ = UniqueFd(check_syscall("socket", ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    sockaddr_in address{.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    check_syscall("bind", ::bind(fd_.get(), raw, size));
    check_syscall("listen", ::listen(fd_.get(), 1));
    check_syscall("getsockname", ::getsockname(fd_.get(), raw, &size));
    address_ = str("http://127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this, answer = std::move(answer)] {
      const UniqueFd client(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char bytes[4096];
      ::recv(client.get(), bytes, sizeof bytes, 0);
      ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      ::shutdown(client.get(), SHUT_WR);
      ::recv(client.get(), bytes, sizeof bytes, 0);
    });
  }
  ~CannedServer() { thread_.join(); }
  const std::string& address() const { return address_; }

 private:
  UniqueFd fd_;
  std::string address_;
  std::thread thread_;
};

TEST_F(ClientTest, RefusesMalformedAnswers) {
  for (const char* answer :
       {"", "garbage\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"}) {
    CannedServer canned(answer);
    Client client(io_.get_executor(), {.address = canned.address()});
    EXPECT_EQ(failure_of(client, {}), ErrorCode::protocol_error) << answer;
    EXPECT_TRUE(contains(message_, canned.address())) << answer;
  }
}

TEST_F(ClientTest, ReadsAnswersOfOtherServers) {
  CannedServer canned("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 Fine\r\n\r\nto the end");
  Client client(io_.get_executor(), {.address = canned.address()});
  EXPECT_EQ(ask(client, {}).body, "to the end");
}

}  // namespace
}  // namespace caisson::net
