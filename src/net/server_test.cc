#include "net/server.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/str.h"
#include "net/server_for_test.h"

namespace caisson::net {
namespace {

constexpr std::string_view kToken = "0123456789abcdef0123456789abcdef";

// Routes that show what a handler got and that use every way to answer.
void fill(Router& router) {
  router.add("GET", "/hello", [](Exchange& exchange) -> Task<void> {
    Response response{.body = "\"hello\""};
    co_await exchange.reply(std::move(response));
  });
  router.add("GET", "/health",
             [](Exchange& exchange) -> Task<void> {
               Response response{.content_type = "text/plain", .body = "ok"};
               co_await exchange.reply(std::move(response));
             },
             {.needs_token = false});
  router.add("POST", "/echo/{name}",
             [](Exchange& exchange) -> Task<void> {
               const std::string body = co_await exchange.read_body();
               Response response{.status = 201, .body = str(exchange.param("name"), ":", body)};
               co_await exchange.reply(std::move(response));
             },
             {.max_body = 1000});
  router.add("POST", "/pieces",
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
             {.max_body = kUnlimited, .body = BodyKind::any});
  router.add("POST", "/ignore",
             [](Exchange& exchange) -> Task<void> {
               Response response;
               co_await exchange.reply(std::move(response));
             },
             {.max_body = 1u << 20});
  router.add("GET", "/stream", [](Exchange& exchange) -> Task<void> {
    co_await exchange.begin(200, "text/event-stream", {});
    co_await exchange.write("one ");
    co_await exchange.write("");
    co_await exchange.write("two");
    co_await exchange.end();
  });
  router.add("GET", "/nothing", [](Exchange& exchange) -> Task<void> {
    Response response{.status = 204};
    co_await exchange.reply(std::move(response));
  });
  router.add("GET", "/fail/{how}", [](Exchange& exchange) -> Task<void> {
    const std::string how = exchange.param("how");
    if (how == "conflict") throw Error(ErrorCode::session_conflict, "session s exists");
    if (how == "foreign") throw std::runtime_error("secret");
    if (how == "split") {
      Response response{.headers = {{"X-A", "b\r\nX-C: d"}}};
      co_await exchange.reply(std::move(response));
    }
    if (how == "halfway") {
      co_await exchange.begin(200, "text/plain", {});
      co_await exchange.write("half");
      throw Error(ErrorCode::box_lost, "gone");
    }
  });
}

class ServerTest : public testing::Test {
 protected:
  // The head of a request to this server, with further header lines.
  std::string head(std::string_view line, std::string_view headers = "") {
    return str(line, " HTTP/1.1\r\nHost: localhost:", server_.port(), "\r\n", headers, "\r\n");
  }
  std::string post(std::string_view target, std::string_view body) {
    return head(str("POST ", target),
                str("Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n")) +
           std::string(body);
  }
  TestServer server_{fill};
  RawClient client_{server_.port()};
};

TEST_F(ServerTest, AnswersOneRequestAfterAnotherOnAConnection) {
  for (int round = 0; round < 3; ++round) {
    const std::string answer = client_.ask(post("/echo/a%2Fb", "{}"));
    EXPECT_EQ(status_in(answer), 201);
    EXPECT_EQ(body_in(answer), "a/b:{}");
    EXPECT_TRUE(contains(answer, "Cache-Control: no-store"));
    EXPECT_FALSE(contains(answer, "Connection: close"));
    EXPECT_FALSE(contains(answer, "Server:"));
  }
  EXPECT_EQ(server_.counts().accepted, 1u);
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  std::string bytes;
  for (int number = 0; number < 100; ++number) bytes += post(str("/echo/", number), "{}");
  client_.send(bytes);
  client_.shutdown_write();
  for (int number = 0; number < 100; ++number) {
    EXPECT_EQ(body_in(client_.read_answer()), str(number, ":{}"));
  }
  EXPECT_TRUE(client_.closed());
}

TEST_F(ServerTest, ReadsARequestThatComesByteByByte) {
  for (const char byte : post("/echo/x", "{\"a\":1}")) client_.send(std::string_view(&byte, 1));
  EXPECT_EQ(body_in(client_.read_answer()), "x:{\"a\":1}");
}

TEST_F(ServerTest, ClosesWhenTheClientAsksForIt) {
  const std::string answer = client_.ask(head("GET /hello", "Connection: close\r\n"));
  EXPECT_TRUE(contains(answer, "Connection: close"));
  EXPECT_TRUE(client_.closed());
  RawClient old(server_.port());
  EXPECT_EQ(status_in(old.ask(
                str("GET /hello HTTP/1.0\r\nHost: localhost:", server_.port(), "\r\n\r\n"))),
            200);
  EXPECT_TRUE(old.closed());
}

TEST_F(ServerTest, RefusesMalformedRequestsAndCloses) {
  const std::string host = str("Host: localhost:", server_.port(), "\r\n");
  for (const std::string& bytes :
       {str("GET /hello HTTP/1.1\r\n\r\n"), str("GET /../hello HTTP/1.1\r\n", host, "\r\n"),
        str("GET /%2e%2e/hello HTTP/1.1\r\n", host, "\r\n"),
        str("GET /a%00 HTTP/1.1\r\n", host, "\r\n"), str("GET /a\\b HTTP/1.1\r\n", host, "\r\n"),
        str("GET /%zz HTTP/1.1\r\n", host, "\r\n"), str("GET //hello HTTP/1.1\r\n", host, "\r\n"),
        str("GET /hello HTTP/1.1\n", host, "\r\n"),
        str("GET /hello HTTP/1.1\r\n", host, "A: b\r\n c\r\n\r\n"),
        str("GET /hello HTTP/1.1\r\n", host, host, "\r\n"),
        str("POST /echo/x HTTP/1.1\r\n", host, "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
        str("POST /echo/x HTTP/1.1\r\n", host,
            "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        str("\x16\x03\x01\x02\n"), str("GET /hello HTTP/3.0\r\n", host, "\r\n")}) {
    RawClient client(server_.port());
    const std::string answer = client.ask(bytes);
    EXPECT_EQ(status_in(answer), 400) << bytes;
    EXPECT_TRUE(contains(answer, "\"code\":\"validation_error\"")) << bytes;
    EXPECT_TRUE(client.closed()) << bytes;
  }
}

TEST_F(ServerTest, RefusesForeignHostsAndOriginsBeforeAnyHandler) {
  for (const std::string& bytes :
       {str("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        str("GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        head(str("GET http://evil.example:", server_.port(), "/hello")),
        head("GET /hello", "Origin: http://evil.example\r\n"),
        head("POST /ignore", "Origin: null\r\n"),
        head("GET /hello", "Sec-Fetch-Site: cross-site\r\n"),
        head("OPTIONS /ignore",
             "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n")}) {
    RawClient client(server_.port());
    const std::string answer = client.ask(bytes);
    EXPECT_EQ(status_in(answer), 403) << bytes;
    EXPECT_TRUE(contains(answer, "\"code\":\"forbidden\"")) << bytes;
    EXPECT_FALSE(contains(answer, "Access-Control")) << bytes;
    EXPECT_TRUE(client.closed()) << bytes;
  }
  EXPECT_EQ(status_in(client_.ask(head(str("GET http://LOCALHOST:", server_.port(), "/hello")))),
            200);
}

TEST_F(ServerTest, TellsUnknownPathsFromWrongMethods) {
  EXPECT_EQ(status_in(client_.ask(head("GET /none"))), 404);
  EXPECT_EQ(status_in(client_.ask(head("GET /hello/"))), 404);
  const std::string answer = client_.ask(head("DELETE /hello"));
  EXPECT_EQ(status_in(answer), 405);
  EXPECT_TRUE(contains(answer, "Allow: GET, HEAD\r\n"));
  for (const char* line :
       {"OPTIONS /hello", "OPTIONS *", "TRACE /hello", "CONNECT evil.example:443"}) {
    const std::string refused = client_.ask(head(line));
    EXPECT_EQ(status_in(refused), 405) << line;
    EXPECT_FALSE(contains(refused, "Access-Control")) << line;
  }
}

TEST_F(ServerTest, AnswersHeadWithoutABody) {
  client_.send(head("HEAD /hello") + head("GET /health"));
  const std::string answer = client_.read_until("\r\n\r\n");
  EXPECT_TRUE(contains(answer, "Content-Length: 7\r\n"));
  EXPECT_EQ(body_in(client_.read_answer()), "ok");
}

TEST_F(ServerTest, TakesJsonOnlyWhereItIsWanted) {
  const auto with_type = [&](std::string_view type) {
    return head("POST /echo/x", str("Content-Type: ", type, "\r\nContent-Length: 2\r\n")) + "{}";
  };
  EXPECT_EQ(status_in(client_.ask(with_type("application/json"))), 201);
  EXPECT_EQ(status_in(client_.ask(with_type("Application/JSON; charset=utf-8"))), 201);
  EXPECT_EQ(status_in(client_.ask(with_type("text/plain"))), 415);
  EXPECT_EQ(status_in(client_.ask(with_type("application/jsonx"))), 415);
  EXPECT_EQ(status_in(client_.ask(head("POST /echo/x", "Content-Length: 2\r\n") + "{}")), 415);
  EXPECT_EQ(status_in(client_.ask(head("POST /echo/x"))), 201);
  EXPECT_EQ(status_in(client_.ask(head("POST /pieces", "Content-Length: 2\r\n") + "{}")), 200);
}

TEST_F(ServerTest, ReadsAChunkedBody) {
  const std::string headers = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
  const std::string answer =
      client_.ask(head("POST /echo/x", headers) + "1\r\n{\r\n1;e\r\n}\r\n0\r\n\r\n");
  EXPECT_EQ(body_in(answer), "x:{}");
  EXPECT_EQ(status_in(client_.ask(head("GET /hello"))), 200);
  EXPECT_EQ(status_in(client_.ask(head("POST /echo/x", headers) + "zz\r\n")), 400);
  EXPECT_TRUE(client_.closed());
}

TEST_F(ServerTest, ReadsALargeBodyInPieces) {
  const std::string megabyte(1u << 20, 'x');
  client_.send(head("POST /pieces", "Content-Length: 8388608\r\n"));
  for (int count = 0; count < 8; ++count) client_.send(megabyte);
  EXPECT_EQ(body_in(client_.read_answer()), "8388608");
}

TEST_F(ServerTest, StreamsAnAnswerInChunks) {
  client_.send(head("GET /stream") + head("GET /hello"));
  const std::string answer = client_.read_until("0\r\n\r\n");
  EXPECT_TRUE(contains(answer, "Transfer-Encoding: chunked\r\n"));
  EXPECT_EQ(body_in(answer), "4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n");
  EXPECT_EQ(body_in(client_.read_answer()), "\"hello\"");
}

TEST_F(ServerTest, StreamsToAnOldClientUntilItCloses) {
  client_.send(str("GET /stream HTTP/1.0\r\nHost: localhost:", server_.port(), "\r\n\r\n"));
  const std::string answer = client_.read_to_end();
  EXPECT_EQ(body_in(answer), "one two");
  EXPECT_FALSE(contains(answer, "chunked"));
}

TEST_F(ServerTest, SendsNoBodyWithNoContent) {
  client_.send(head("GET /nothing") + head("GET /health"));
  EXPECT_FALSE(contains(client_.read_until("\r\n\r\n"), "Content-Length"));
  EXPECT_EQ(body_in(client_.read_answer()), "ok");
}

TEST_F(ServerTest, InvitesABodyOnlyWhenItIsRead) {
  const std::string expecting =
      "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n";
  client_.send(head("POST /echo/x", expecting));
  EXPECT_EQ(client_.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(body_in(client_.ask("{}")), "x:{}");
  EXPECT_EQ(status_in(client_.ask(head("POST /ignore", expecting))), 200);
  EXPECT_TRUE(client_.closed());
  RawClient other(server_.port());
  EXPECT_EQ(status_in(other.ask(head("POST /echo/x", "Content-Length: 0\r\nExpect: more\r\n"))),
            417);
  EXPECT_EQ(status_in(other.ask(head("POST /echo/x",
                                     "Content-Type: application/json\r\n"
                                     "Content-Length: 2000\r\n"
                                     "Expect: 100-continue\r\n"))),
            413);
}

TEST_F(ServerTest, GoesOnAfterABodyThatNobodyRead) {
  EXPECT_EQ(status_in(client_.ask(post("/ignore", "{\"unread\":true}"))), 200);
  EXPECT_EQ(body_in(client_.ask(post("/echo/x", "{}"))), "x:{}");
}

TEST_F(ServerTest, TurnsErrorsIntoAnswers) {
  const std::string conflict = client_.ask(head("GET /fail/conflict"));
  EXPECT_EQ(status_in(conflict), 409);
  EXPECT_EQ(body_in(conflict),
            "{\"error\":{\"code\":\"session_conflict\",\"message\":\"session s exists\"}}");
  for (const char* how : {"foreign", "silent"}) {
    const std::string answer = client_.ask(head(str("GET /fail/", how)));
    EXPECT_EQ(status_in(answer), 500) << how;
    EXPECT_FALSE(contains(answer, "secret")) << how;
  }
  EXPECT_EQ(status_in(client_.ask(head("GET /fail/split"))), 500);
  EXPECT_EQ(status_in(client_.ask(head("GET /hello"))), 200);
}

TEST_F(ServerTest, CutsAnAnswerThatFailsHalfway) {
  client_.send(head("GET /fail/halfway"));
  const std::string answer = client_.read_to_end();
  EXPECT_EQ(status_in(answer), 200);
  EXPECT_EQ(body_in(answer), "4\r\nhalf\r\n");
}

TEST(ServerWithToken, AsksForTheTokenAndAnswersTheSameWithoutAndWithAWrongOne) {
  TestServer server(fill, {.token = std::string(kToken), .without_token = WithoutToken::nobody});
  const auto ask = [&](std::string_view target, std::string_view headers) {
    RawClient client(server.port());
    return client.ask(str("GET ", target, " HTTP/1.1\r\nHost: localhost:", server.port(), "\r\n",
                          headers, "\r\n"));
  };
  const std::string right = str("Authorization: Bearer ", kToken, "\r\n");
  EXPECT_EQ(status_in(ask("/hello", right)), 200);
  EXPECT_EQ(status_in(ask("/health", "")), 200);
  EXPECT_EQ(status_in(ask("/none", right)), 404);
  const std::string missing = ask("/hello", "");
  EXPECT_EQ(status_in(missing), 401);
  EXPECT_TRUE(contains(missing, "WWW-Authenticate: Bearer\r\n"));
  EXPECT_EQ(body_in(missing), body_in(ask("/hello", "Authorization: Bearer wrong\r\n")));
  EXPECT_EQ(body_in(missing), body_in(ask("/none", "")));
  EXPECT_EQ(status_in(ask(str("/hello?token=", kToken), "")), 400);
}

TEST(ServerAddress, ListensOnIpv6) {
  TestServer server(fill, {.host = "::1"});
  EXPECT_GT(server.port(), 0);
}

TEST(ServerAddress, NamesTheAddressThatIsInUse) {
  TestServer server(fill);
  try {
    TestServer other(fill, {.host = "127.0.0.1", .port = server.port()});
    FAIL() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), str("127.0.0.1:", server.port())));
  }
  EXPECT_THROW(TestServer(fill, {.host = "no.such.name"}), Error);
}

}  // namespace
}  // namespace caisson::net
